"""Where the outside begins: files, the model hub, our own folders. The rooms below take bytes, text and values."""
