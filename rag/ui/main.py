"""The router: opens the library, then runs the page that was asked for."""

import streamlit as st

from rag.errors import RagError
from rag.ui import render, resources
from rag.ui.style import ICON, LOGO, STYLE

st.set_page_config(
    page_title="Fenestra", page_icon=ICON, layout="wide", initial_sidebar_state="collapsed"
)
st.logo(LOGO, size="large")
st.html(STYLE)
chat = st.Page("views/chat.py", title="Chat", icon=":material/forum:", default=True)
documents = st.Page("views/documents.py", title="Documents", icon=":material/description:")
page = st.navigation([chat, documents], position="top")
# Streamlit hides its own links on a narrow screen, behind a panel that stays open over the page.
with st.container(horizontal=True, key="narrow"):
    st.page_link(chat)
    st.page_link(documents)
if st.query_params.get("page") == documents.url_path:
    st.switch_page(documents)
try:
    with st.spinner("Opening your library…"):
        resources.opened()
except RagError as error:
    st.error(render.literal(str(error)), icon=":material/error:")
    st.button("Try again", icon=":material/refresh:")
    st.stop()
page.run()
