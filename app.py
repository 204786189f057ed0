"""Fenestra in the browser: `streamlit run app.py`."""

import streamlit as st

from rag.ui import server

server.refuse_beyond_loopback()
app = st.App("rag/ui/main.py", **server.options())
