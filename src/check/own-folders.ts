import { existsSync, realpathSync, statSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { installFolders, isInside } from "../sandbox/mounts.ts";
import { type CopyLimits, installedIn, isSmall } from "./folder-copies.ts";

/** A larger folder is only read. It is copied in each part of a check. */
const ownLimits: CopyLimits = { files: 500, bytes: 64 * 1024 ** 2, nested: false };

/** A folder that the server sees at its own place, where it is a copy that it may write. */
export interface OwnCopy {
  readonly source: string;
  /** The name of the copy in the folder of a world. */
  readonly name: string;
}

/** Folders of the system. */
export const systemFolders =
  "/usr /bin /sbin /lib /lib32 /lib64 /etc /nix /gnu /run /proc /sys /dev /tmp /var/run".split(" ");

/** The folders of a server's program: packages of its files, installations, and the folder that it is started in. */
export async function ownFolders(
  program: string,
  args: readonly string[],
  cwd: string,
): Promise<{
  /** The innermost first. */
  readonly all: readonly string[];
  /** Those that a server may write to, since it keeps its data beside its program, or where it is started. */
  readonly written: readonly string[];
}> {
  const files = [program, ...args.map((arg) => resolve(cwd, arg))].filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true,
  );
  const found = await Promise.all(
    files.map(async (file) => {
      const [installation, modules] = [await installFolders(file, homedir()), await realpath(file)];
      const isInstallation = !installation.includes(modules);
      const [own = modules, ...others] = packageFolders(modules);
      return { all: [...installation, own, ...others], written: isInstallation ? [] : [own] };
    }),
  );
  // A home folder is nobody's program.
  const known = (paths: readonly string[]): readonly string[] =>
    [...paths.filter((path) => !isInside(homedir(), path)), ...(isInside(homedir(), cwd) ? [] : [cwd])]
      .filter((path, index, all) => all.indexOf(path) === index)
      .toSorted((a, b) => b.length - a.length);
  return {
    all: known(found.flatMap(({ all }) => all)),
    written: known(found.flatMap(({ written }) => written)),
  };
}

/** Those of some folders that are copied, the outermost first. One in a copy is a part of it, unless it stands among installed packages. */
export async function copiesOf(folders: readonly string[]): Promise<readonly OwnCopy[]> {
  const copies: OwnCopy[] = [];
  for (const source of folders.toReversed()) {
    const isSystem = systemFolders.some(
      (each) => source === each || (each !== "/tmp" && isInside(source, each)),
    );
    // Through a link the server would see the original.
    if (isSystem || source === "/" || realpathSync(source) !== source) continue;
    const around = copies.find((each) => isInside(source, each.source));
    const isPart = around !== undefined && !installedIn(around.source).some((each) => isInside(source, each));
    if (isPart || !(await isSmall(source, ownLimits))) continue;
    copies.unshift({ source, name: `own/${copies.length}` });
  }
  return copies;
}

/** The folder of the package that a file belongs to, and those of the packages that it can import. */
function packageFolders(file: string): readonly string[] {
  const above: string[] = [];
  for (let folder = dirname(file); dirname(folder) !== folder; folder = dirname(folder)) above.push(folder);
  const own = above.find((folder) =>
    ["package.json", "pyproject.toml"].some((name) => existsSync(join(folder, name))),
  );
  const modules = above.map((folder) => join(folder, "node_modules")).filter((folder) => existsSync(folder));
  return [own ?? dirname(file), ...modules];
}
