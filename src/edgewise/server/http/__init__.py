"""The HTTP API: thin handlers over one replica."""
