"""Coin Rush: a small game over UDP, and a player that plays it by itself."""
