"""Values to what people and programs read: text, bars to scale, JSON documents. Nothing is decided here."""
