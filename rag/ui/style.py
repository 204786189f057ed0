"""The look: logo, icon, and the style sheet of what :mod:`rag.ui.render` writes.

Colours follow the theme: Streamlit sets ``color-scheme``, on which ``light-dark()`` depends.
"""

_PANES = (
    '<rect x="2" y="2" width="28" height="28" rx="6" fill="#0f8a77"/>'
    '<g fill="#fff"><rect x="7" y="8" width="18" height="3" rx="1.5" opacity=".55"/>'
    '<rect x="7" y="14.5" width="18" height="3" rx="1.5"/>'
    '<rect x="7" y="21" width="18" height="3" rx="1.5" opacity=".55"/></g>'
)

ICON = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">{_PANES}</svg>'

LOGO = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 132 32">{_PANES}'
    '<text x="38" y="23" font-family="Source Sans, Segoe UI, Helvetica, Arial, sans-serif" '
    'font-size="21" font-weight="600" fill="#0f8a77">Fenestra</text></svg>'
)

SCROLL_TO_QUESTION = (
    "<script>[...document.querySelectorAll('.fen-question')].pop().scrollIntoView()</script>"
)

STYLE = """
<style>
.stMainBlockContainer { max-width: 82rem; padding: 4.5rem max(1rem, 4vw) 0; }
div:has(> .st-key-ask) { position: sticky; bottom: 0; z-index: 2; padding: .75rem 0 1.5rem;
  background: light-dark(#ffffff, #121716); }
.stMainBlockContainer:has(.st-key-ask) { min-height: 100vh; display: flex; }
.stMainBlockContainer:has(.st-key-ask) > * { flex: 1; }
div:has(> .st-key-ask) { margin-top: auto; }
.st-key-turns > :last-child:nth-child(n + 2) { min-height: calc(100vh - 15rem); }
.stChatMessage { background: light-dark(#f3f6f5, #1d2523); }
.fen-question { scroll-margin-top: 5.5rem; }
.fen-answer, .fen-question, .fen-sources, .fen-note { overflow-wrap: anywhere; }
.fen-question { margin: 0; white-space: pre-wrap; font-weight: 600; }
.fen-side { margin: 0; padding: 0; font-size: 1.05rem; font-weight: 600; }
.fen-side small { display: block; font-size: .85rem; font-weight: 400;
  color: light-dark(#51605c, #a3b2ae); }
.fen-answer > :first-child { margin-top: 0; }
.fen-answer > :last-child { margin-bottom: 0; }
.fen-answer p, .fen-answer ul, .fen-answer ol { margin: 0 0 .6rem; }
.fen-answer ul { padding-left: 1.2rem; }
.fen-answer ol { padding-left: 0; list-style: none; }
.fen-answer li > p:first-of-type { display: inline; }
.fen-answer pre, .fen-answer code { font-family: "Source Code Pro", monospace; font-size: .85em; }
.fen-answer code { padding: .1em .3em; border-radius: .25rem;
  background: light-dark(#eef3f2, #25302d); }
.fen-answer pre { padding: .6rem .8rem; overflow-x: auto; border-radius: .4rem;
  background: light-dark(#eef3f2, #25302d); }
.fen-answer pre code { padding: 0; background: none; }
.fen-answer table { border-collapse: collapse; display: block; overflow-x: auto; }
.fen-answer th, .fen-answer td { padding: .25rem .6rem; text-align: start;
  border: 1px solid light-dark(#d5dedc, #3a4643); }
.fen-progress { font-size: .9rem; color: light-dark(#51605c, #a3b2ae); }
.fen-progress progress { display: block; width: 100%; height: .35rem; margin-top: .4rem; }
.fen-note { margin: 0; padding: .35rem .7rem; font-size: .9rem;
  border-left: 3px solid light-dark(#a86a00, #e0b25c);
  background: light-dark(#fdf6e7, #2c2618); }
.stHtml dl.fen-figures, .stHtml ul.fen-sources { margin: 0; padding: 0; }
/* A run that is stopped can draw no more: what it left says so as soon as nothing runs. */
.fen-open .fen-note { display: none; margin-top: .6rem; }
[data-test-script-state="notRunning"] .fen-open .fen-note { display: block; }
[data-test-script-state="notRunning"] .fen-open .fen-progress { display: none; }
.fen-figures { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr));
  gap: .5rem .8rem; }
.fen-figures dt { font-size: .78rem; color: light-dark(#51605c, #a3b2ae); }
.fen-figures dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
.fen-sources { list-style: none; font-size: .9rem; }
.fen-sources li { display: flex; gap: .45rem; padding: .1rem 0; margin: 0; }
.fen-number { flex: none; font-variant-numeric: tabular-nums; color: light-dark(#51605c, #a3b2ae); }
.fen-title { font-weight: 600; white-space: pre-wrap; }
.fen-place { color: light-dark(#51605c, #a3b2ae); }
.fen-heading { margin: 0; font-size: .8rem; font-weight: 600;
  color: light-dark(#51605c, #a3b2ae); }
.fen-name { margin: 0; overflow-wrap: anywhere; }
.fen-document { display: grid; gap: .6rem 1.5rem; overflow-wrap: anywhere;
  grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); }
.fen-document .fen-figures { grid-template-columns: repeat(5, minmax(0, 1fr)) minmax(0, 2.1fr); }
.fen-document .fen-figures dd { font-weight: 400; }
.fen-document details { font-size: .85rem; }
.fen-job { display: flex; gap: .6rem; overflow-wrap: anywhere; }
.fen-job > span { width: 1rem; }
.fen-job > div { flex: 1; min-width: 0; }
.fen-ready > span, .fen-unchanged > span { color: light-dark(#0b6e5f, #5cc8b4); }
.fen-failed { color: light-dark(#a11b2b, #ff9aa4); }
@media (prefers-reduced-motion: no-preference) { .stMain { scroll-behavior: smooth; } }
div:has(> .st-key-narrow) { display: none; }
@media (max-width: 48rem) {
  div:has(> .st-key-narrow) { display: block; }
  [data-testid="stExpandSidebarButton"], .stSidebar { display: none; }
}
@media (max-width: 60rem) {
  .fen-document { grid-template-columns: minmax(0, 1fr); }
  .fen-document .fen-figures { grid-template-columns: repeat(3, minmax(0, 1fr)); }
}
.fen-prompt { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 28rem; overflow-y: auto;
  font-family: "Source Code Pro", monospace; font-size: .8rem; line-height: 1.5;
  padding: .6rem .8rem; border-radius: .4rem; background: light-dark(#f3f6f5, #1d2523); }
.fen-legend { margin: 0; font-size: .85rem; line-height: 2; }
.fen-match { font-weight: 700; background: light-dark(#cdeee6, #11473d);
  border-left: 4px solid light-dark(#0b6e5f, #5cc8b4); padding: .1rem .5rem; }
.fen-added { background: light-dark(#e9e7f5, #2a2740);
  border-left: 4px dotted light-dark(#6558b1, #a99df0); padding: .1rem .5rem; }
.fen-prompt .fen-match, .fen-prompt .fen-added { display: block; margin: .15rem 0; }
.fen-end { font-size: 0; line-height: 0; }
.fen-prompt .fen-match::before, .fen-prompt .fen-added::before { content: attr(data-label);
  display: block; font: 600 .72rem "Source Sans", sans-serif;
  color: light-dark(#33423e, #c9d6d2); }
</style>
"""
