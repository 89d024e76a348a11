"""Build the wheel and run the smoke test against it in an environment that holds nothing else."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))


def run(*command: str, cwd: Path = ROOT) -> None:
    """Run a command; end with its exit status when it fails."""
    # the environment of this process must not lend the empty one its packages
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("UV_PROJECT", "VIRTUAL_ENV"))
    }
    done = subprocess.run(command, cwd=cwd, env=kept, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def main() -> None:
    """Build, install, smoke."""
    with tempfile.TemporaryDirectory(prefix="adjourn-wheel-") as folder:
        away = Path(folder)
        run(UV, "build", "--quiet", "--wheel", "--out-dir", str(away / "dist"))
        wheel = next((away / "dist").glob("*.whl"))
        # versions as locked, so that this proves the wheel and not the day
        run(
            UV,
            "export",
            "--quiet",
            "--locked",
            "--no-dev",
            "--no-emit-project",
            "--no-hashes",
            "-o",
            str(away / "locked.txt"),
        )
        run(UV, "venv", "--quiet", "--python", sys.executable, str(away / "venv"))
        python = str(away / "venv" / "bin" / "python")
        run(UV, "pip", "install", "--quiet", "--python", python, "-c", str(away / "locked.txt"), str(wheel))
        (away / "work").mkdir()
        run(python, str(ROOT / "tests" / "packaging" / "smoke.py"), cwd=away / "work")
        print(f"{wheel.name}: built, installed and run in an empty environment")


if __name__ == "__main__":
    main()
