import { lstat, readlink, stat } from "node:fs/promises";
import type { Mount } from "./mounts.ts";

/** Programs and libraries. `/opt` is not among them: what is there is for its owners only. */
const programFolders = [
  "/usr",
  "/bin",
  "/sbin",
  "/lib",
  "/lib32",
  "/lib64",
  "/libx32",
  "/nix/store",
  "/gnu/store",
  "/run/current-system",
];

/** What programs need of /etc: names, time, certificates, the linker's and OpenSSL's settings. No keys and no passwords. */
const settings = [
  "alternatives",
  "ca-certificates",
  "ca-certificates.conf",
  "crypto-policies",
  "gai.conf",
  "group",
  "host.conf",
  "hosts",
  "ld-musl-x86_64.path",
  "ld-musl-aarch64.path",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "passwd",
  "pki/ca-trust",
  "pki/tls/cert.pem",
  "pki/tls/certs",
  "pki/tls/openssl.cnf",
  "protocols",
  "resolv.conf",
  "services",
  "ssl/cert.pem",
  "ssl/certs",
  "ssl/openssl.cnf",
  "static/ssl/certs",
  "timezone",
].map((name) => `/etc/${name}`);

/** The system's own files, to be read, as far as this machine has them. */
export async function systemMounts(): Promise<readonly Mount[]> {
  const [folders, files] = await Promise.all([
    Promise.all(programFolders.map(asItIs)),
    Promise.all(settings.map(whatItIs)),
  ]);
  return [...folders, ...files].filter((mount) => mount !== undefined);
}

/** Where a folder is a link, as `/bin` often is, it is the same link inside. */
async function asItIs(at: string): Promise<Mount | undefined> {
  try {
    const isLink = (await lstat(at)).isSymbolicLink();
    return isLink ? { kind: "link", at, target: await readlink(at) } : read(at);
  } catch {
    return undefined; // not on this machine
  }
}

/** A link may point to where nothing is to be seen, so what it points to stands in its place. */
async function whatItIs(at: string): Promise<Mount | undefined> {
  try {
    await stat(at);
    return read(at);
  } catch {
    return undefined; // not on this machine, or a link to nothing
  }
}

function read(at: string): Mount {
  return { kind: "read", at, source: at };
}
