import { existsSync, realpathSync } from "node:fs";
import { cp, type FileHandle, mkdir, open, rm, symlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { McpvalsError } from "../base/error.ts";
import { exact } from "../base/json.ts";
import type { EventOf } from "../model/event.ts";
import type { StdioServerSpec } from "../model/server.ts";
import { findProgram } from "../process/environment.ts";
import { makeTemporaryFolder, removeFolder } from "../process/folders.ts";
import { isInside } from "../sandbox/mounts.ts";
import { createAuthority } from "../sandbox/certificates.ts";
import { openNetwork, type OwnNetwork } from "../sandbox/network.ts";
import { type Access, AccessLog } from "./access-log.ts";
import {
  besideSecret,
  besideSuffix,
  elsewhereFile,
  elsewhereLabel,
  elsewhereSecret,
  isSecret,
  pageAddress,
  plantedFiles,
  plantedFolderLink,
  plantedFolders,
  plantedHome,
  plantedLink,
  plantedName,
  plantedNote,
  plantedRoot,
  plantedVariables,
  secretEndings,
  secretName,
  type SentSecrets,
} from "./canaries.ts";
import { type Entries, type Entry, readFolder } from "./compared-files.ts";
import { canaryHost, findTracer, tracing, worldSandbox } from "./confinement.ts";
import { canBeCopied, installedIn } from "./folder-copies.ts";
import { type GivenFolder, givenFolders } from "./given-folders.ts";
import { isGitIndex } from "./git-index.ts";
import { copiesOf, type OwnCopy, ownFolders, systemFolders } from "./own-folders.ts";

/** Something that a server touched, and how that is known. */
export type SeenAccess = Omit<EventOf<"server.access">, "type" | "server" | "seq" | "at" | "trial">;

/**
 * What a server sees in a check of its security: a home folder with planted secrets, copies of the folders in its arguments and of its own
 * folder, no network that leads out of it. Disposing of it removes the folder.
 */
export class World implements AsyncDisposable {
  /** How the server is started in it. */
  readonly spec: StdioServerSpec;
  readonly #root: string;
  readonly #folders: readonly GivenFolder[];
  /** The folders of the program, the innermost first. */
  readonly #own: readonly string[];
  readonly #copies: readonly OwnCopy[];
  readonly #isTraced: boolean;
  readonly #log = new AccessLog();
  readonly #logFile: FileHandle;
  readonly #network: OwnNetwork | undefined;
  #offset = 0;
  /** By the path that the server sees. */
  #files: Entries = new Map();
  /** What was there before the server ran. */
  #planted: Entries = this.#files;

  private constructor(
    root: string,
    spec: StdioServerSpec,
    rest: {
      readonly folders: readonly GivenFolder[];
      readonly own: readonly string[];
      readonly copies: readonly OwnCopy[];
      readonly isTraced: boolean;
      readonly logFile: FileHandle;
      readonly network: OwnNetwork | undefined;
    },
  ) {
    this.#root = root;
    this.spec = spec;
    this.#folders = rest.folders;
    this.#own = rest.own;
    this.#copies = rest.copies;
    this.#isTraced = rest.isTraced;
    this.#logFile = rest.logFile;
    this.#network = rest.network;
  }

  /**
   * Makes the world of a server. `traces`: its system calls are recorded where `strace` works; `answers`: its network answers. Throws
   * errors of the file system, and McpvalsError `sandbox/unavailable` where no network can be made.
   */
  static async create(
    spec: StdioServerSpec,
    {
      traces,
      answers,
      signal,
    }: { readonly traces: boolean; readonly answers: boolean; readonly signal: AbortSignal },
  ): Promise<World> {
    const { args, cwd, env, sandbox } = spec;
    const folders = await givenFolders(spec);
    const isHome = isInside(homedir(), cwd);
    const program = (await findProgram(spec.command, { env, cwd })) ?? spec.command;
    const own = await ownFolders(program, args, cwd);
    const copies = await copiesOf(own.written);
    const placed = args.map(
      (arg, index) =>
        folders.find((each) => each.index === index)?.path ??
        (isHome && existsSync(resolve(cwd, arg)) ? resolve(cwd, arg) : arg),
    );
    const tracer = traces ? await findTracer(signal) : undefined;
    const watching =
      tracer === undefined ? [] : [tracer, ...tracing, "-o", `${plantedRoot}/${logName}`, "--"];
    const [command = program, ...rest] = [...watching, program, ...placed];
    const named = args.map((arg) => resolve(cwd, arg)).filter((path) => existsSync(path));
    const linked = folders.flatMap(({ source }) => (source === undefined ? [] : installedIn(source)));
    const read = [
      ...own.all,
      ...named,
      ...linked,
      ...(sandbox?.read ?? []),
      ...(sandbox?.write ?? []),
    ].filter(
      (path) =>
        !isInside(homedir(), path) &&
        !folders.some(({ source }) => source === path) &&
        !copies.some(({ source }) => isInside(path, source)),
    );
    const { TMPDIR: _, ...variables } = env;
    const authority = createAuthority();
    const network = answers ? await openNetwork(canaryHost(authority), signal) : undefined;
    const root = await makeTemporaryFolder("sandbox");
    await put(join(root, logName), "");
    await put(join(root, authorityName), authority.certificate);
    const logFile = await open(join(root, logName), "r");
    const world = new World(
      root,
      {
        ...spec,
        // The home folder is not visible; a program that is started there starts elsewhere.
        cwd: isHome ? "/usr" : cwd,
        command,
        args: rest,
        env: { ...plantedVariables, ...trust, ...variables, HOME: plantedHome },
        sandbox: {
          ...worldSandbox,
          ...exact({ namespaces: network?.namespaces }),
          read: [...new Set(read)],
          // Each by itself, so that nothing in the sandbox can put something else in the place of one.
          mounts: [
            ...[plantedHome, plantedFolders, `${plantedRoot}/${logName}`, authorityPath].map((at) => ({
              at,
              source: join(root, at.slice(plantedRoot.length)),
            })),
            { at: "/etc/hosts", source: join(root, namesName) },
            ...copies.flatMap(({ source, name }) => [
              { at: source, source: join(root, name) },
              ...installedIn(source).map((at) => ({ at, source: realpathSync(at), isReadOnly: true })),
            ]),
          ],
        },
      },
      { folders, own: own.all, copies, isTraced: tracer !== undefined, logFile, network },
    );
    await world.plant();
    return world;
  }

  /** Puts everything where it was at first. Nothing may run in it. */
  async plant(): Promise<void> {
    this.#files = await this.#readFiles();
    const isAsPlanted = (top: string): boolean => {
      const [now, then] = [this.#files, this.#planted].map((all) =>
        JSON.stringify([...all].flatMap(([path, { sign }]) => (isInside(path, top) ? [[path, sign]] : []))),
      );
      return this.#planted.size > 0 && now === then;
    };
    if (!isAsPlanted(plantedHome)) await this.#plantHome();
    if (!isAsPlanted(plantedFolders)) await this.#plantFolders();
    for (const { source } of this.#copies) if (!isAsPlanted(source)) await this.#plantCopy(source);
    await put(join(this.#root, namesName), `127.0.0.1 localhost ${plantedName}\n::1 localhost\n`);
    this.#files = await this.#readFiles();
    this.#planted = this.#files;
    await this.#readLog();
  }

  async #plantHome(): Promise<void> {
    const home = await this.#empty(plantedHome);
    for (const [file, secret] of plantedFiles) await put(join(home, file), `secret = ${secret}\n`);
  }

  async #plantFolders(): Promise<void> {
    await this.#empty(plantedFolders);
    for (const [index, { path, source }] of this.#folders.entries()) {
      const folder = this.#outside(path);
      await mkdir(dirname(folder), { recursive: true });
      await mkdir(folder, { recursive: true });
      if (source !== undefined) {
        await cp(source, folder, { recursive: true, filter: canBeCopied });
        for (const at of installedIn(source)) await symlink(at, join(folder, basename(at)));
      }
      if (index > 0) continue;
      for (const name of [plantedNote, plantedLink, plantedFolderLink])
        await rm(join(folder, name), { recursive: true, force: true });
      await put(join(folder, plantedNote), "A note of mcpvals.\n");
      await symlink(`${plantedHome}/.ssh/id_rsa`, join(folder, plantedLink));
      await symlink(dirname(elsewhereFile), join(folder, plantedFolderLink));
      for (const ending of secretEndings)
        await put(`${folder}${besideSuffix}/${secretName}${ending}`, `secret = ${besideSecret}\n`);
      await put(this.#outside(elsewhereFile), `secret = ${elsewhereSecret}\n`);
    }
  }

  async #plantCopy(source: string): Promise<void> {
    const folder = await this.#empty(source);
    await cp(source, folder, { recursive: true, filter: canBeCopied });
    // Where the sandbox mounts them.
    for (const at of installedIn(source)) await mkdir(join(folder, basename(at)));
  }

  async #empty(top: string): Promise<string> {
    const folder = this.#outside(top);
    await removeFolder(folder);
    await mkdir(folder, { recursive: true });
    return folder;
  }

  /**
   * What the server has touched since the last look, without its own program, the system and temporary files. `quick`: where system calls
   * are recorded, its own folders are not compared, which may have many files.
   */
  async look({ quick }: { readonly quick: boolean }): Promise<readonly SeenAccess[]> {
    const before = this.#files;
    const isQuick = quick && this.#isTraced;
    this.#files = await this.#readFiles(isQuick);
    // A file that it made and removed again is temporary, and often has a random name.
    const isGone = (path: string): boolean =>
      isQuick && this.#isInCopy(path) ? !existsSync(this.#outside(path)) : !this.#files.has(path);
    const isTemporary = (path: string): boolean =>
      this.#comparedName(path) !== undefined && !before.has(path) && isGone(path);
    // Git writes its index again when only the times of files differ.
    const isRefreshed = (path: string): boolean =>
      isGitIndex(path) && before.has(path) && before.get(path)?.content === this.#files.get(path)?.content;
    const traced = (await this.#readLog()).flatMap(({ isMode, isFolder, ...each }): SeenAccess[] => {
      const target = this.#name({ ...each, ...exact({ isMode, isFolder }) });
      if (target === undefined) return [];
      const isFile = each.access !== "connect" && each.access !== "resolve";
      const path = resolve(this.spec.cwd, each.target);
      if (isFile && each.failed === undefined && (isTemporary(path) || isRefreshed(path))) return [];
      return [{ ...each, ...this.#inFolder(target), by: "trace" }];
    });
    const compared: SeenAccess[] = [];
    const compare = (access: "write" | "delete", path: string, { content: sha256 }: Entry): void => {
      const target = this.#comparedName(path);
      if (target !== undefined)
        compared.push({ access, ...this.#inFolder(target), by: "comparison", sha256 });
    };
    for (const [path, entry] of this.#files)
      if (before.get(path)?.content !== entry.content) compare("write", path, entry);
    for (const [path, entry] of before)
      // What it made itself in an earlier probe is nothing that it destroys.
      if (!this.#files.has(path) && this.#planted.has(path)) compare("delete", path, entry);
    return [...new Map([...traced, ...compared].map((each) => [JSON.stringify(each), each])).values()];
  }

  /** What the server has sent since the last call that had planted secrets in it. */
  takeSent(): readonly SentSecrets[] {
    return (this.#network?.take() ?? []).map((line) => JSON.parse(line) as SentSecrets);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#network?.[Symbol.asyncDispose]();
    await this.#logFile.close();
    await removeFolder(this.#root);
  }

  /** The path on this machine of what the server sees. */
  #outside(path: string): string {
    const copy = this.#copies.find(({ source }) => isInside(path, source));
    if (copy !== undefined) return join(this.#root, copy.name, path.slice(copy.source.length));
    return join(this.#root, path.slice(plantedRoot.length));
  }

  /** How a target is called in reports, the same in each check; undefined: it does not count. */
  #name({ access, target, failed, isMode, isFolder }: Access): string | undefined {
    // Every name has this address, and is in the record by itself.
    if (access === "connect" && target.startsWith(`${pageAddress}:`)) return undefined;
    if (access === "connect" || access === "resolve") return target;
    const path = resolve(this.spec.cwd, target);
    if (path === authorityPath) return undefined;
    const isChange = access === "write" || access === "delete";
    // Other errors say that there was nothing to change.
    if (isChange && failed !== undefined && !["EROFS", "EACCES", "EPERM"].includes(failed)) return undefined;
    const own = this.#own.find((folder) => isInside(path, folder));
    if (access === "run") return failed !== undefined ? undefined : own === undefined ? path : basename(path);
    const planted = this.#plantedName(path);
    if (isFolder === true) {
      const name = `${planted}/`;
      return isSecret(name) ? name : undefined;
    }
    if (planted !== undefined) {
      const isMissing = access === "read" && failed !== undefined && !isSecret(planted);
      return isCache(planted) || isMissing ? undefined : planted;
    }
    if (own !== undefined) {
      const name = `{server}${path.slice(own.length)}`;
      // Packages bring programs that they let be run when they start them.
      return access === "read" || isMode === true || isCache(name) ? undefined : name;
    }
    if (systemFolders.some((folder) => isInside(path, folder))) return undefined;
    // Some programs look up their user's home folder in another place than HOME.
    if (isInside(path, homedir())) {
      const name = `~${path.slice(homedir().length)}`;
      return access !== "read" || plantedFiles.some(([file]) => name === `~/${file}`) ? name : undefined;
    }
    return access === "read" && failed !== undefined ? undefined : path;
  }

  #inFolder(target: string): Pick<SeenAccess, "target" | "folder"> {
    const folder = this.#folders.find(({ label }) => isInside(target, label))?.label;
    return { target, ...exact({ folder }) };
  }

  #plantedName(path: string): string | undefined {
    const elsewhere = dirname(elsewhereFile);
    if (isInside(path, elsewhere)) return `${elsewhereLabel}${path.slice(elsewhere.length)}`;
    if (isInside(path, plantedHome)) return `~${path.slice(plantedHome.length)}`;
    const folder = this.#folders.find((each) => path.startsWith(each.path));
    return folder && `${folder.label}${path.slice(folder.path.length)}`;
  }

  #isInCopy(path: string): boolean {
    return this.#copies.some(({ source }) => isInside(path, source));
  }

  /** How a file that is compared is called in reports; undefined: it does not count. */
  #comparedName(path: string): string | undefined {
    const own = this.#isInCopy(path) ? this.#own.find((folder) => isInside(path, folder)) : undefined;
    const name = own === undefined ? this.#plantedName(path) : `{server}${path.slice(own.length)}`;
    return name === undefined || isCache(name) ? undefined : name;
  }

  async #readLog(): Promise<readonly Access[]> {
    if (!this.#isTraced) return [];
    const { size } = await this.#logFile.stat();
    const length = size - this.#offset;
    if (length < 0 || length > maxLogBytes)
      throw new McpvalsError(
        "sandbox/record-lost",
        length < 0
          ? "the record of what the server touches was cut off by something in its sandbox"
          : `the server did so much in one step that its record has ${Math.round(length / 1024 ** 2)} MiB, and may have ${maxLogBytes / 1024 ** 2}`,
      );
    const found: Access[] = [];
    for (; this.#offset < size;) {
      const piece = Buffer.alloc(Math.min(size - this.#offset, pieceBytes));
      const { bytesRead } = await this.#logFile.read(piece, 0, piece.length, this.#offset);
      if (bytesRead === 0) break;
      this.#offset += bytesRead;
      // What is no ASCII is written in octal.
      for (const access of this.#log.push(piece.toString("latin1", 0, bytesRead))) found.push(access);
    }
    return found;
  }

  /** Everything that is compared. `quick`: its own folders are taken to be as they were. */
  async #readFiles(quick = false): Promise<Entries> {
    const tops = [plantedHome, plantedFolders, ...(quick ? [] : this.#copies.map(({ source }) => source))];
    const found = quick ? [...this.#files].filter(([path]) => this.#isInCopy(path)) : [];
    for (const top of tops) {
      const entries = await readFolder(top, {
        outside: this.#outside(top),
        leftOut: this.#copies.some(({ source }) => source === top) ? installedIn(top) : [],
        known: this.#files,
        isCompared: (path) => this.#comparedName(path) !== undefined,
      });
      found.push(...entries);
    }
    return new Map(found);
  }
}

/** Where the record of `strace` is, in the folder of a world. */
const logName = "trace/log";
/** Where the names of addresses are, in the folder of a world. */
const namesName = "hosts";
/** The certificate of the authority that answers with TLS, and the variables by which programs trust it: Node, OpenSSL, Python, curl, Git, Deno. */
const authorityName = "authority.pem";
const authorityPath = `${plantedRoot}/${authorityName}`;
const trust: Readonly<Record<string, string>> = Object.fromEntries(
  [
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "DENO_CERT",
  ].map((name) => [name, authorityPath]),
);
/** The longest record of one probe; a program that does more floods it. */
const maxLogBytes = 512 * 1024 * 1024;
const pieceBytes = 16 * 1024 * 1024;

/** What runtimes look for in a home folder, where programs keep what they can make again, and the lock of Git's index, which also readers take. */
function isCache(path: string): boolean {
  return (
    /^~\/\.(?:node_modules|node_libraries|cache|npm)(?:\/|$)|\/__pycache__(?:\/|$)/.test(path) ||
    /\/\.git\/(?:.*\/)?index\.lock$/.test(path)
  );
}

async function put(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}
