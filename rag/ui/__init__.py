"""The screens: the only place, with ``app.py``, that knows Streamlit."""
