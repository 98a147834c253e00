import { hash } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { Header } from "tar";
import { ZipFile } from "yazl";

/** A release that a mirror serves. */
export interface MirrorRelease {
  readonly tag: string;
  readonly draft?: boolean;
  readonly prerelease?: boolean;
  readonly files: Readonly<Record<string, Buffer | string>>;
  /** Its file of checksums, written for all files; a text instead is served as it is. Default: `checksums.sha256`. */
  readonly checksums?: false | { readonly name?: string; readonly text?: string };
  /** Its API tells digests too. */
  readonly digests?: boolean;
}

/** Answers a request itself, instead of the mirror; false leaves it to the mirror. */
export type Interference = (request: IncomingMessage, response: ServerResponse) => boolean;

/** A server on loopback with the REST layout of GitHub's releases. */
export interface ReleaseMirror extends AsyncDisposable {
  readonly url: string;
  /** Paths of all requests, with their queries. */
  readonly requests: string[];
  /** By `OWNER/REPO`, newest first; to be changed at any time. */
  readonly releases: Map<string, MirrorRelease[]>;
  interfere: Interference;
}

export async function startReleaseMirror(
  releases: Readonly<Record<string, readonly MirrorRelease[]>> = {},
): Promise<ReleaseMirror> {
  const requests: string[] = [];
  const state = new Map(Object.entries(releases).map(([name, list]) => [name, [...list]]));
  const server = createServer((request, response) => {
    requests.push(request.url ?? "");
    if (mirror.interfere(request, response)) return;
    const origin = `http://${request.headers.host}`;
    const answer = respond(new URL(request.url ?? "/", origin), state);
    if (answer === undefined) response.writeHead(404).end(`{"message":"Not Found"}`);
    else response.writeHead(200, { "content-type": "application/octet-stream" }).end(answer);
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const mirror: ReleaseMirror = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    releases: state,
    interfere: () => false,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
  return mirror;
}

function respond(url: URL, state: ReleaseMirror["releases"]): string | Buffer | undefined {
  const [, api, repository, rest = ""] = /^\/(repos|files)\/([^/]+\/[^/]+)\/(.*)$/.exec(url.pathname) ?? [];
  const releases = state.get(repository ?? "");
  if (releases === undefined || repository === undefined) return undefined;
  const shown = (release: MirrorRelease): object => describe(release, `${url.origin}/files/${repository}`);
  if (api === "files") {
    const [tag, name] = rest.split("/").map(decodeURIComponent);
    return releases
      .filter((release) => release.tag === tag)
      .map((release) => filesOf(release)[name ?? ""])[0];
  }
  const visible = releases.filter(({ draft }) => draft !== true);
  if (rest === "releases/latest") {
    const latest = visible.find(({ prerelease }) => prerelease !== true);
    return latest === undefined ? undefined : JSON.stringify(shown(latest));
  }
  if (rest.startsWith("releases/tags/")) {
    const found = visible.find(({ tag }) => tag === decodeURIComponent(rest.slice("releases/tags/".length)));
    return found === undefined ? undefined : JSON.stringify(shown(found));
  }
  const [length, page] = [url.searchParams.get("per_page") ?? 30, url.searchParams.get("page") ?? 1].map(
    Number,
  );
  if (rest !== "releases" || length === undefined || page === undefined) return undefined;
  return JSON.stringify(releases.slice((page - 1) * length, page * length).map(shown));
}

function describe(release: MirrorRelease, base: string): object {
  const { tag, draft = false, prerelease = false, digests = false } = release;
  const assets = Object.entries(filesOf(release)).map(([name, content]) => ({
    name,
    size: Buffer.byteLength(content),
    browser_download_url: `${base}/${encodeURIComponent(tag)}/${encodeURIComponent(name)}`,
    digest: digests ? `sha256:${hash("sha256", content)}` : null,
  }));
  return { tag_name: tag, draft, prerelease, assets };
}

function filesOf({ files, checksums = {} }: MirrorRelease): Readonly<Record<string, Buffer | string>> {
  if (checksums === false) return files;
  return { ...files, [checksums.name ?? "checksums.sha256"]: checksums.text ?? checksumsOf(files) };
}

/** A file of checksums as `sha256sum` writes it. */
export function checksumsOf(files: Readonly<Record<string, Buffer | string>>): string {
  return Object.entries(files)
    .map(([name, content]) => `${hash("sha256", content)}  ${name}\n`)
    .join("");
}

/** A member of an archive. */
export interface ArchiveMember {
  readonly name: string;
  readonly content?: string | Buffer;
  /** With the kind of file, as Unix has it; default: a file that is not executable. */
  readonly mode?: number;
  /** Of a tar: the kind of member. */
  readonly type?:
    | "File"
    | "Directory"
    | "SymbolicLink"
    | "Link"
    | "CharacterDevice"
    | "FIFO"
    | "ExtendedHeader";
  readonly linkpath?: string;
}

/** A zip; names go into it as they are, however bad. */
export async function zipOf(members: readonly ArchiveMember[]): Promise<Buffer> {
  const zip = new ZipFile();
  // Equal members make equal archives at any time.
  const mtime = new Date(2020, 0, 1);
  // The library refuses bad names, so members get harmless ones of the same length, which are then replaced.
  const names = members.map(({ name }, index) => `${index}`.padStart(Buffer.byteLength(name), "~"));
  for (const [index, { content = "", mode = 0o100644 }] of members.entries()) {
    zip.addBuffer(Buffer.from(content), names[index] ?? "", { mode, mtime });
  }
  zip.end();
  let bytes = (await buffer(zip.outputStream)).toString("latin1");
  for (const [index, { name }] of members.entries()) {
    bytes = bytes.replaceAll(names[index] ?? "", Buffer.from(name).toString("latin1"));
  }
  return Buffer.from(bytes, "latin1");
}

/** A gzipped tar; names go into it as they are, however bad. */
export function tarOf(members: readonly ArchiveMember[]): Buffer {
  const blocks = members.flatMap(({ name, content = "", mode = 0o644, type = "File", linkpath }) => {
    const bytes = Buffer.from(content);
    const header = new Header({
      path: name,
      mode: mode & 0o7777,
      size: bytes.length,
      mtime: new Date(0),
      type,
      ...(linkpath === undefined ? {} : { linkpath }),
    });
    const block = Buffer.alloc(512);
    header.encode(block, 0);
    return [block, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

const operations = { look: { params: { type: "object", additionalProperties: false } } };

/** An extension that tells its version and its settings, and notes in the user's folder that it was started. */
function program(version: string): string {
  const manifest = { name: "shop", version, protocolVersion: "0.0.1", operations };
  return `
import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
appendFileSync(process.env.HOME + "/started", "${version} ");
let told = "";
const answers = {
  initialize({ config }) {
    told = " with " + JSON.stringify(config);
    return ${JSON.stringify(manifest)};
  },
  execute: () => ({ success: true, message: "this is ${version}" + told }),
  shutdown: () => ({}),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method](params) }) + "\\n");
  if (method === "shutdown") break;
}
process.exit(0);
`;
}

/** A release of the extension `shop`, for every platform. */
export function shopRelease(version: string): MirrorRelease {
  const manifest = JSON.stringify({ name: "shop", version, operations });
  return { tag: `v${version}`, files: { "shop-any.mjs": program(version), "extension.yaml": manifest } };
}
