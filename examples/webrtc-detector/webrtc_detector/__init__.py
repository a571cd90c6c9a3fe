"""A WebRTC server that finds faces in a client's video, and the client that measures it."""
