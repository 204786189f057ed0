"""Fenestra: RAG that reads around the match."""

from rag.window import chunk_window, merge_spans, window_span

__all__ = ["chunk_window", "merge_spans", "window_span"]
