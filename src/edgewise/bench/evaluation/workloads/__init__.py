"""What the pods of every case run, and how a client connects to one.

`workload.py` says what that is; `http.py` is the light one, `webrtc.py` the sample with video.
"""
