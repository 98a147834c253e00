/** What a program did outside of its own memory. */
export interface Access {
  readonly access: "read" | "write" | "delete" | "run" | "connect" | "resolve";
  /** A path, the file of a program, an address with a port, or a name. */
  readonly target: string;
  /** The error of the system, such as `ENOENT`. Absent: it succeeded, or goes on. */
  readonly failed?: string;
  /** Only the mode of the file is written, as by `chmod`. */
  readonly isMode?: true;
  /** The names in a folder are read. */
  readonly isFolder?: true;
}

/** The system calls that are watched; an older `strace` need not know those with a question mark. */
export const watchedCalls =
  "open,openat,openat2,creat,execve,execveat,connect,sendto,sendmsg,sendmmsg,unlink,unlinkat,rmdir,rename,renameat,renameat2,mkdir,mkdirat,link,linkat,symlink,symlinkat,truncate,chmod,fchmodat,?fchmodat2";

/** Reads what `strace -f -yy` writes, in pieces. */
export class AccessLog {
  #rest = "";
  /** The process that was started first, which becomes the server. */
  #first: string | undefined;
  /** By process, the beginning of a call that has not ended. */
  readonly #begun = new Map<string, string>();

  /** What further output says. */
  push(text: string): readonly Access[] {
    const lines = `${this.#rest}${text}`.split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#read(line));
  }

  #read(line: string): readonly Access[] {
    const [, pid = "", said = ""] = /^(\d+)\s+(.*)$/.exec(line) ?? [];
    this.#first ??= pid;
    const unfinished = " <unfinished ...>";
    if (said.endsWith(unfinished)) {
      this.#begun.set(pid, said.slice(0, -unfinished.length));
      return [];
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(said)?.[1];
    const whole = resumed === undefined ? said : `${this.#begun.get(pid) ?? ""}${resumed}`;
    const call = /^(\w+)\((.*)\)\s+= (-?\d+|\?)(?:<(.*)>)?(?: (E[A-Z0-9]+))?/.exec(whole);
    if (call === null) return [];
    const [, name = "", args = "", , opened, failed] = call;
    const found = accessesOf(name, args, opened, pid === this.#first);
    const goesOn = failed === undefined || failed === "EINPROGRESS";
    return goesOn ? found : found.map((access) => ({ ...access, failed }));
  }
}

function accessesOf(
  name: string,
  args: string,
  opened: string | undefined,
  isFirst: boolean,
): readonly Access[] {
  const texts = [...args.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, text = ""]) => unescaped(text));
  const [first = "", second] = texts;
  const at = (path: string): string => {
    const folder = /<(\/[^>]*)>/.exec(args)?.[1];
    return path.startsWith("/") || folder === undefined ? path : `${unescaped(folder)}/${path}`;
  };
  switch (name) {
    case "open":
    case "openat":
    case "openat2":
    case "creat": {
      // That only gives the file a number, as programs do that look where a path leads.
      if (args.includes("O_PATH")) return [];
      // The system follows the path inside one folder only: what is not found was sought there.
      if (opened === undefined && /RESOLVE_(?:BENEATH|IN_ROOT)/.test(args)) return [];
      const isFolder = args.includes("O_DIRECTORY");
      // Opening for both is what databases do that only read; a comparison shows what was written.
      const writes = name === "creat" || /O_(?:WRONLY|TRUNC)/.test(args);
      return [
        {
          access: writes ? "write" : "read",
          target: opened === undefined ? at(first) : unescaped(opened),
          ...(isFolder ? { isFolder } : {}),
        },
      ];
    }
    case "execve":
    case "execveat":
      return isFirst ? [] : [{ access: "run", target: first }];
    case "unlink":
    case "unlinkat":
    case "rmdir":
      return [{ access: "delete", target: at(first) }];
    case "rename":
    case "renameat":
    case "renameat2":
      return [
        { access: "delete", target: at(first) },
        { access: "write", target: at(second ?? first) },
      ];
    case "link":
    case "linkat":
    case "symlink":
    case "symlinkat":
      return [{ access: "write", target: at(second ?? first) }];
    case "mkdir":
    case "mkdirat":
    case "truncate":
      return [{ access: "write", target: at(first) }];
    case "chmod":
    case "fchmodat":
    case "fchmodat2":
      return [{ access: "write", target: at(first), isMode: true }];
    case "connect":
    case "sendto":
    case "sendmsg":
    case "sendmmsg":
      return networkAccesses(args, texts, name === "connect");
    default:
      return [];
  }
}

/** Addresses that are connected to, and names in questions to a name server. */
function networkAccesses(args: string, texts: readonly string[], connects: boolean): readonly Access[] {
  const [, socket = ""] = /^\d+<(.*?)>, /.exec(args) ?? [];
  const isDatagram = socket.startsWith("UDP");
  // Nothing is sent: `getaddrinfo` asks in this way which of several addresses has a route.
  if (connects && isDatagram) return [];
  const [, peer, peerPort] = (isDatagram ? /->(.*):(\d+)\]$/.exec(socket) : undefined) ?? [];
  const port = /sin6?_port=htons\((\d+)\)/.exec(args)?.[1] ?? peerPort;
  const said = /inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"/.exec(args);
  const host = said?.[1] ?? (said?.[2] === undefined ? peer : `[${said[2]}]`);
  // Port 0 only asks the system for a route, and port 53 of this machine for a name.
  const isNameServer = port === "53" && (host === "[::1]" || host?.startsWith("127.") === true);
  const address: readonly Access[] =
    host === undefined || port === "0" || isNameServer
      ? []
      : [{ access: "connect", target: `${host}:${port}` }];
  if (connects) return address;
  const names = new Set(texts.flatMap((text) => questionIn(text) ?? []));
  return [...address, ...Array.from(names, (target): Access => ({ access: "resolve", target }))];
}

/** The name in a question of DNS; undefined: it is something else. */
function questionIn(text: string): string | undefined {
  // One question, no answer, no authority: what a resolver sends.
  if (text.length < 17 || text.slice(4, 10) !== "\0\u0001\0\0\0\0") return undefined;
  const labels: string[] = [];
  let at = 12;
  for (let length = text.charCodeAt(at); length > 0; length = text.charCodeAt(at)) {
    if (length > 63 || at + length >= text.length) return undefined;
    labels.push(text.slice(at + 1, at + 1 + length));
    at += length + 1;
  }
  return labels.length === 0 ? undefined : labels.join(".");
}

const escapes: Readonly<Record<string, number>> = { n: 10, t: 9, r: 13, v: 11, f: 12, '"': 34, "\\": 92 };

/** A text of the log, in which bytes stand in octal. */
function unescaped(text: string): string {
  const bytes = text.replaceAll(/\\([0-7]{1,3}|.)/g, (_, code: string) =>
    String.fromCharCode(escapes[code] ?? Number.parseInt(code, 8)),
  );
  const whole = Buffer.from(bytes, "latin1").toString("utf8");
  return whole.includes("\uFFFD") ? bytes : whole;
}
