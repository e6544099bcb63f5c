"""The client for asyncio. `_sync` is generated from it by `tools/generate_sync.py`."""
