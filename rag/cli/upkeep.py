"""The commands around the library: serve, doctor, rebuild."""

from __future__ import annotations

import os
from contextlib import closing

from rag.cli.arguments import Arguments
from rag.cli.console import Console
from rag.cli.exits import FAILED, OK
from rag.cli.session import open_session


def serve(arguments: Arguments, console: Console) -> int:
    """Run the web application until it is stopped."""
    from rag.compose import check_home
    from rag.settings import load_settings
    from rag.ui.server import serve as run

    settings = load_settings(arguments.home)
    check_home(settings)
    # The screens read the settings for themselves.
    os.environ["FENESTRA_HOME"] = str(settings.home)
    return run(arguments.port)


def doctor(arguments: Arguments, console: Console) -> int:
    """Check everything and say what to do. Returns 1 if anything failed."""
    from rag.doctor import diagnose

    checks = []
    for check in diagnose(arguments.home):
        checks.append(check)
        console.write(f"{check.status:<5} {check.name}: {check.detail}")
        if check.advice:
            console.write(f"      {check.advice}")
    console.result(
        {
            "checks": [
                {
                    "name": check.name,
                    "status": check.status.value,
                    "detail": check.detail,
                    "advice": check.advice,
                }
                for check in checks
            ]
        }
    )
    return FAILED if any(check.status == "fail" for check in checks) else OK


def rebuild(arguments: Arguments, console: Console) -> int:
    """Rebuild the vector index from the catalog."""
    rows = []
    with open_session(arguments, console) as library:
        with closing(library.rebuild()) as steps:
            for step in steps:
                console.progress(step)
        for collection in library.collections():
            documents = library.documents(collection.name)
            rows.append(
                {
                    "name": collection.name,
                    "documents": len(documents),
                    "chunks": sum(document.chunks for document in documents),
                }
            )
    for row in rows:
        console.write(f"{row['name']}: {row['documents']} documents, {row['chunks']} chunks")
    console.write("The vector index is rebuilt.")
    console.result({"collections": rows})
    return OK
