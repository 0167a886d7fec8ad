"""The texts of a night's bugs, one file for each; and, where it is asked for, their issues by GitHub's command `gh`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine, update
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.orm import Session

from fuzz.core.base.case import CaseError
from fuzz.core.base.kernel import Kernel
from fuzz.core.base.text import printable
from fuzz.findings import casefile
from fuzz.findings.database_views import BucketTotals, NightView
from fuzz.findings.tables import BucketRow
from fuzz.report.filing import IssueText, closing_of, issue_of, returned_of

_GH_S = 60.0
"""The seconds that one command of GitHub may take."""
_MOST = 10
"""The most issues that one night files. Chosen: a night with more has one cause that a person should see first."""


@dataclass(frozen=True)
class Filing:
    """The texts of a night's bugs. With a repository, `gh` files them there."""

    folder: Path
    kernels: Mapping[str, Kernel]
    say: Callable[[str], None]
    repository: str | None = None

    def write(self, seen: NightView) -> dict[str, IssueText]:
        """Write the text of each failing bug into the folder, remove those of others, and return the texts by
        signature."""
        found = {each.row.signature: (each, self._text(each, seen)) for each in seen.failing}
        texts = {name: text for name, (_, text) in found.items() if text is not None}
        names = {f"{Path(found[name][0].row.case_file).stem}.md": text for name, text in texts.items()}
        self.folder.mkdir(exist_ok=True)
        for path in self.folder.glob("*.md"):
            if path.name not in names:
                path.unlink()
        for file, text in names.items():
            (self.folder / file).write_text(str(text), encoding="utf-8")
        return texts

    def _text(self, bucket: BucketTotals, seen: NightView) -> IssueText | None:
        with suppress(CaseError, OSError):  # a bug whose case is gone has no program
            case, _ = casefile.load(seen.findings / bucket.row.case_file)
            return issue_of(bucket, seen, self.kernels.get(bucket.row.kernel), case)
        return None

    def file(self, seen: NightView, texts: Mapping[str, IssueText], engine: Engine) -> None:
        """File an issue for each bug that is explained and has none, close those of bugs that pass, and open again
        those of bugs that fail again. What fails is said, and tried again in the next night."""
        filed = 0
        for bucket in seen.buckets:
            text, url = texts.get(bucket.row.signature), bucket.row.issue
            passes = bucket.status == "passes now"
            if url and not url.startswith("https://"):  # anybody may have written the store
                continue
            try:
                if url and passes and bucket.row.issue_open:
                    self._gh(["issue", "close", url, "--comment", closing_of(bucket, seen)])
                    _remember(engine, bucket, url, is_open=False)
                elif url and text is not None and not bucket.row.issue_open:
                    self._gh(["issue", "reopen", url, "--comment", returned_of(bucket, seen)])
                    _remember(engine, bucket, url, is_open=True)
                elif not url and text is not None and bucket.told.explained != "not yet" and filed < _MOST:
                    filed += 1
                    _remember(engine, bucket, self._created(text), is_open=True)
            except (OSError, subprocess.SubprocessError, OperationalError, InterfaceError) as error:
                said = getattr(error, "stderr", None) or str(error)
                self.say(f"not filed: {bucket.row.kernel}: {printable(str(said).strip().rpartition(chr(10))[2])}")
                return

    def _created(self, text: IssueText) -> str:
        words = ["issue", "create", "--repo", self.repository or "", "--title", text.title, "--body-file", "-"]
        return self._gh(words, text.body).strip().rpartition("\n")[2]

    def _gh(self, words: Sequence[str], given: str = "") -> str:
        done = subprocess.run(["gh", *words], input=given, capture_output=True, text=True, timeout=_GH_S, check=True)
        self.say(f"gh {' '.join(words[:2])}: {done.stdout.strip() or words[2]}")
        return done.stdout


def _remember(engine: Engine, bucket: BucketTotals, url: str, *, is_open: bool) -> None:
    with Session(engine) as transaction, transaction.begin():
        of_bucket = update(BucketRow).filter_by(signature=bucket.row.signature)
        transaction.execute(of_bucket.values(issue=url, issue_open=is_open))
