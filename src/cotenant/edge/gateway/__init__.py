"""The live gateway: HTTP in, engines out, the router of `serving` between them. aiohttp is loaded here alone."""
