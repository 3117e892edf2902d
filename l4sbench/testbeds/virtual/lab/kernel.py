# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The l4sbench authors
"""Building the kernel: unpack, patch, configure, compile, and keep the files that building modules needs."""

import fnmatch
import re
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from l4sbench.disk.files import remove_tree, write_whole
from l4sbench.errors import TestbedError
from l4sbench.testbeds.virtual.lab.cache import Cache, digest_of, digest_of_file, read_note
from l4sbench.testbeds.virtual.lab.command import Commands
from l4sbench.testbeds.virtual.lab.inputs import RECIPE, Inputs
from l4sbench.testbeds.virtual.lab.kepttree import building, refresh
from l4sbench.testbeds.virtual.lab.source import OLDEST, PRODUCTS, Say, Source, version_key
from l4sbench.text.models import Strict

_UNPACK_S = 900
_CONFIG_S = 300
_COMPILE_S = 3600
_TYPICAL_OBJECTS = 800
"""Number of files that a build compiles, until a build into this cache has counted them."""

_SKIPPED = (
    *(f"drivers/{name}" for name in ("accel", "acpi", "clk", "crypto", "gpio", "gpu", "hid", "hwmon", "iio")),
    *(f"drivers/{name}" for name in ("infiniband", "input", "media", "mfd", "mtd", "phy", "pinctrl")),
    *(f"drivers/{name}" for name in ("platform", "scsi", "soc", "staging", "usb", "video")),
    *(f"drivers/net/{name}" for name in ("can", "dsa", "ethernet", "phy", "wireless")),
    *("fs/btrfs", "fs/nfs", "fs/xfs", "samples", "sound"),
    *(f"arch/{name}" for name in ("alpha", "arc", "arm", "arm64", "csky", "hexagon", "loongarch", "m68k")),
    *(f"arch/{name}" for name in ("microblaze", "mips", "nios2", "openrisc", "parisc", "powerpc", "riscv")),
    *(f"arch/{name}" for name in ("s390", "sh", "sparc", "xtensa")),
)
"""Folders whose source no guest can use. Their Kconfig files stay, as all of those refer to each other."""
_UNUSED = (
    *("*.dts", "*.dtsi", "*.json", "*.rst", "*.yaml"),
    *("*/Documentation/ABI/*", "*/Documentation/devicetree/*.txt", "*/tools/perf/*", "*/tools/testing/*"),
)
"""Patterns of files that no kernel of the lab is made from."""

_EXCLUDED = re.compile(
    "|".join(
        fnmatch.translate(pattern)
        for pattern in (
            *(f"*/{name}/*.[chS]" for name in _SKIPPED),
            *_UNUSED,
            *(f"*{suffix}" for suffix in PRODUCTS),
        )
    )
)

REPEATABLE = {
    "KBUILD_BUILD_USER": "l4sbench",
    "KBUILD_BUILD_HOST": "lab",
    "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
    "KBUILD_BUILD_VERSION": "1",
    "KCONFIG_NOTIMESTAMP": "1",
}
"""Variables that make equal sources give equal kernels."""

DEBUGGING = frozenset(
    {"SLUB_DEBUG", "KASAN", "KASAN_VMALLOC", "DEBUG_KMEMLEAK", "PROVE_LOCKING", "DEBUG_ATOMIC_SLEEP"}
)
"""Options, without `CONFIG_`, of a kernel that finds errors of modules: memory used after it was freed or
beyond its end, memory that nothing refers to, locks that can deadlock, sleeping where that is forbidden.
KASAN_VMALLOC, as a module may be loaded where another one was."""

_ABSENT = ("RUSTC=none", "BINDGEN=none", "PAHOLE=none")
"""Tools that the lab's kernel does not need, and whose presence would show in its configuration."""


class KernelInfo(Strict):
    """The cache's note on a built kernel."""

    release: str
    digest: str
    source: str
    objects: int


@dataclass(frozen=True)
class Kernel:
    """A built kernel: `path` holds `linux`, `config`, `info.json` and the trimmed `tree` for modules."""

    path: Path
    info: KernelInfo

    @property
    def built_in(self) -> frozenset[str]:
        """The options that are built in, without `CONFIG_`."""
        return frozenset(name for name, value in read_options(self.path / "config").items() if value == "y")

    @property
    def tree(self) -> Path:
        """The files of the source tree that building modules needs."""
        return self.path / "tree"


def kernel_digest(inputs: Inputs, source: Source, compiler: str, built_in: frozenset[str]) -> str:
    """Return the name of the part that these inputs make; `built_in`: options beyond the configuration."""
    config, patches = inputs.digests["kernel configuration"], inputs.digests["kernel patches"]
    return digest_of([RECIPE["kernel"], source.digest, config, patches, compiler, *sorted(built_in)])


def find_kernel(cache: Cache, digest: str) -> Kernel | None:
    """Return the kernel of that name, or None if the cache does not have it."""
    path = cache.part("kernel", digest)
    info = read_note(path / "info.json", KernelInfo)
    return None if info is None else Kernel(path, info)


def build_kernel(
    cache: Cache,
    inputs: Inputs,
    source: Source,
    digest: str,
    jobs: int,
    say: Say,
    built_in: frozenset[str] = frozenset(),
    kept: Path | None = None,
) -> Kernel:
    """Build a kernel into the cache.

    Args:
        cache: The cache.
        inputs: Configuration and patches.
        source: The kernel source.
        digest: The part's name, see `kernel_digest`.
        jobs: Compilations at a time.
        say: Receives progress messages.
        built_in: Options, without `CONFIG_`, to build in beyond the configuration.
        kept: A tree that stays after the build; only what has changed since its last build is compiled.

    Raises:
        TestbedError: A patch does not apply, an option of the configuration did not take effect, or a step
            failed.
    """
    commands = Commands.logging_to(cache.logs / "kernel.log", REPEATABLE)
    expected = _objects_last_time(cache)
    with cache.stage("kernel", digest) as stage:
        tree = kept or stage / "tree"
        with building(tree) if kept else nullcontext():
            if kept is None:
                _unpack(commands, source, tree, say)
                version = _version(tree)
                _patch(commands, inputs.patches, tree, version, say)
            else:
                version = _version(source.path)
                _refresh(commands, inputs, source, tree, version, say)
            _configure(commands, inputs.config, built_in, tree, say)
            objects = _compile(commands, tree, jobs, expected, say)
        say("keeping the files that modules need", None)
        release = (tree / "include" / "config" / "kernel.release").read_text(encoding="utf-8").strip()
        commands.run(["strip", "-o", stage / "linux", tree / "linux"], what="stripping", timeout_s=60)
        shutil.copy(tree / ".config", stage / "config")
        if kept is not None:
            tree = stage / "tree"
            _copy_what_stays(kept, tree)
        _trim(tree)
        info = KernelInfo(
            release=release,
            digest=digest_of_file(stage / "linux"),
            source=f"{source.description} (Linux {version})",
            objects=objects,
        )
        write_whole(stage / "info.json", info.model_dump_json(indent=1))
    return Kernel(cache.part("kernel", digest), info)


def _refresh(commands: Commands, inputs: Inputs, source: Source, tree: Path, version: str, say: Say) -> None:
    """Bring a kept tree up to date with its source and our patches."""
    say("looking for changes in the kernel tree", None)
    texts = [path.read_text(encoding="utf-8") for path in inputs.patches]
    patched = {name for text in texts for name in re.findall(r"^\+\+\+ b/(\S+)", text, re.MULTILINE)}
    refresh(
        source.path,
        tree,
        fill=lambda new: _unpack(commands, source, new, say),
        patch=lambda part: _patch(commands, inputs.patches, part, version, say),
        patched=frozenset(patched),
        excluded=_excluded,
    )


def _excluded(name: str) -> bool:
    """Return whether `unpack` leaves out a file of a tree, by its path."""
    return _EXCLUDED.match(f"./{name}") is not None


def _copy_what_stays(kept: Path, tree: Path) -> None:
    """Copy those folders of a kept tree of which `_trim` leaves something."""
    ignore = shutil.ignore_patterns("*.o", "*.a", ".*.cmd", "vmlinux*", ".vmlinux*", ".tmp_*")
    tree.mkdir()
    (tree / "arch").mkdir()
    for name in ("include", "scripts", "arch/um", "arch/x86"):
        copied = ignore if name.startswith("arch") else None  # modules are built with programs of scripts/
        shutil.copytree(kept / name, tree / name, symlinks=True, ignore=copied)
    for path in (*kept.iterdir(), *(kept / "arch").iterdir()):
        if path.is_file() and path.name not in {"linux", "vmlinux"} and path.suffix not in {".o", ".a"}:
            shutil.copy2(path, tree / path.relative_to(kept))


def _objects_last_time(cache: Cache) -> int:
    found = (find_kernel(cache, path.name) for path in sorted((cache.root / "kernel").glob("*")))
    return max((kernel.info.objects for kernel in found if kernel is not None), default=_TYPICAL_OBJECTS)


def _unpack(commands: Commands, source: Source, tree: Path, say: Say) -> None:
    tree.mkdir()
    say("unpacking the kernel source", None)
    unpack(commands, source, tree)
    if source.path.is_dir():
        for arch in ("x86_64", "um"):  # whatever it was built for before
            make(commands, tree, "mrproper", arch=arch, what="cleaning the copy of the kernel tree")


def unpack(commands: Commands, source: Source, tree: Path, selected: tuple[str, ...] = ()) -> None:
    """Unpack a kernel source into a folder, without objects and without the drivers that no guest can have.

    Args:
        commands: Runs tar.
        source: The tarball or the folder.
        tree: Where to.
        selected: Options of tar that select members; all of them when empty.

    Raises:
        TestbedError: tar failed.
    """
    excluded = ["--anchored", *(f"--exclude=*/{name}/*.[chS]" for name in _SKIPPED)]
    excluded += [f"--exclude={pattern}" for pattern in _UNUSED]
    # xz uses one core unless it is asked to use all
    into: list[str | Path] = ["env", "XZ_OPT=-T0", "tar", "-x", "-C", tree]
    into += ["--no-same-owner", "--strip-components=1"]
    if source.path.is_dir():
        excluded += ["--exclude=./.git", *(f"--exclude=*{suffix}" for suffix in PRODUCTS)]
        commands.pipe(
            ["tar", "-c", "-C", source.path, "--mode=u+rw", *excluded, "."],
            [*into, *selected],
            what="copying the kernel tree",
            timeout_s=_UNPACK_S,
        )
    else:
        commands.run(
            [*into, "-f", source.path, *excluded, *selected],
            what="unpacking the kernel source",
            timeout_s=_UNPACK_S,
        )


def _version(tree: Path) -> str:
    try:
        text = (tree / "Makefile").read_text(encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"the kernel source has no Makefile at its top: {error}") from error
    names = ("VERSION", "PATCHLEVEL", "SUBLEVEL")
    found = [re.search(rf"^{name} = (\d+)$", text, re.MULTILINE) for name in names]
    version = ".".join(match[1] for match in found if match)
    if version_key(version) < OLDEST:
        raise TestbedError(f"Linux {version or '?'} is too old: AccECN and DualPI2 need 7.0 or later")
    return version


def _patch(commands: Commands, patches: tuple[Path, ...], tree: Path, version: str, say: Say) -> None:
    base = ["patch", "-p1", "--batch", "--no-backup-if-mismatch", "-d", str(tree)]
    for path in patches:
        say(f"patching: {path.name}", None)
        try:
            commands.run([*base, "--forward", "-i", path], what=f"the patch {path.name}", timeout_s=60)
        except TestbedError as error:
            try:  # the user's own tree may have it already
                commands.run([*base, "-R", "--dry-run", "-f", "-i", path], what="a try", timeout_s=60)
            except TestbedError:
                raise TestbedError(
                    f"the patch {path.name} does not apply to Linux {version}, and the lab needs it: "
                    f"{error.message}",
                    hint=f"adapt {path} to this kernel, or build another one; the log is {commands.log}",
                ) from None


def _configure(commands: Commands, fragment: Path, built_in: frozenset[str], tree: Path, say: Say) -> None:
    say("configuring", None)
    make(commands, tree, "tinyconfig", what="making the smallest configuration")
    asked = with_options(fragment.read_text(encoding="utf-8"), built_in)
    with (tree / ".config").open("a", encoding="utf-8") as config:
        config.write(asked)
    make(commands, tree, "olddefconfig", what="completing the configuration")
    missing = missing_options(asked, (tree / ".config").read_text(encoding="utf-8"))
    if missing:
        raise TestbedError(
            f"this kernel does not take {len(missing)} of the lab's options: {', '.join(missing)}",
            hint=f"each may need another option, or be unknown to this version; they come from {fragment}"
            + (" and from needs.config of catalog entries" if built_in else ""),
        )


def with_options(fragment: str, built_in: frozenset[str]) -> str:
    """Switch options on in a configuration fragment; its own lines on them, such as `=n`, yield."""
    names = {f"CONFIG_{option}" for option in built_in}
    kept = (line for line in fragment.splitlines(keepends=True) if line.partition("=")[0] not in names)
    return "".join([*(f"{name}=y\n" for name in sorted(names)), *kept])


def read_options(config: Path) -> dict[str, str]:
    """Return the options that are set in a kernel's `.config`, without `CONFIG_`, and their values."""
    return dict(re.findall(r"^CONFIG_(\w+)=(.*)$", config.read_text(encoding="utf-8"), re.MULTILINE))


def missing_options(asked: str, got: str) -> tuple[str, ...]:
    """Return the options of a configuration fragment that a complete configuration lacks or has otherwise.

    An option requested as `n` is right when it is not set at all. Those below the line `# ---- optional` may
    be unknown to a kernel.
    """
    asked = re.split(r"^# ---- optional", asked, maxsplit=1, flags=re.MULTILINE)[0]
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", got, re.MULTILINE))
    wanted = re.findall(r"^(CONFIG_\w+)=(.*)$", asked, re.MULTILINE)
    return tuple(f"{name}={value}" for name, value in wanted if have.get(name, "n") != value)


def _compile(commands: Commands, tree: Path, jobs: int, expected: int, say: Say) -> int:
    count = 0

    def on_line(line: str) -> None:
        nonlocal count
        if re.match(r"  (CC|AS|USER) ", line):
            count += 1
            say(f"compiling the kernel, {count} files", min(0.99, count / expected))

    make(commands, tree, f"-j{jobs}", what="compiling the kernel", timeout_s=_COMPILE_S, on_line=on_line)
    make(commands, tree, "modules_prepare", what="preparing to build modules")
    return count


def make(
    commands: Commands,
    tree: Path,
    *goals: str,
    what: str,
    arch: str = "um",
    timeout_s: float = _CONFIG_S,
    on_line: Callable[[str], None] | None = None,
) -> None:
    """Run make in a kernel tree; `what` names the step in errors. Raises TestbedError if it fails."""
    commands.run(
        ["make", "-C", tree, f"ARCH={arch}", *_ABSENT, *goals],
        what=what,
        timeout_s=timeout_s,
        on_line=on_line,
    )


def _trim(tree: Path) -> None:
    """Keep only those files of a built tree that building a module reads: about 60 MB of 2 GB."""
    for entry in tree.iterdir():
        if entry.is_dir() and entry.name not in ("include", "scripts", "arch"):
            remove_tree(entry)
    remove_tree(tree / "include" / "dt-bindings")
    for entry in (tree / "arch").iterdir():
        if entry.is_dir() and entry.name not in ("um", "x86"):
            remove_tree(entry)
    for pattern in (
        "linux",
        "vmlinux*",
        ".vmlinux*",
        ".tmp_vmlinux*",
        "built-in*",
        "System.map",
        "*.o",
        ".*.cmd",
    ):
        for path in tree.glob(pattern):
            path.unlink()
    kept = re.compile(r".*\.h|Makefile.*|Kbuild.*|Kconfig.*|.*\.lds")
    for path in (tree / "arch").rglob("*"):
        if path.is_file() and not kept.fullmatch(path.name):
            path.unlink()
