/** Where a confined server sees the planted files, the same in every check. */
export const plantedRoot = "/mcpvals";
export const plantedHome = `${plantedRoot}/home`;
/** A name that looks like one of the internet, and stands for this machine where the server runs. */
export const plantedName = "mcpvals.example.com";
/** Where hostile requests go, besides the usual port of HTTP. */
export const canaryPort = 8642;
/** Where a machine in a cloud can ask for its own credentials, and names of that. */
export const metadataAddress = "169.254.169.254";
export const metadataNames: readonly string[] = [`metadata.${plantedName}`, "metadata.google.internal"];
/** The address of every other name in the sandbox: one of the internet, since servers may refuse those that are kept for documentation. */
export const pageAddress = "93.184.215.14";
/** How a name begins that has {@link pageAddress} when it is asked for first, and then an address of this machine. */
export const rebindingPrefix = "mcpvals-rebinding-";
const pageHost = `pages.${plantedName}`;
/** Addresses in the sandbox where a page is, where data is, and which lead elsewhere. */
export const pages = {
  page: `http://${pageHost}/page`,
  data: `https://${pageHost}/data.json`,
  toThisMachine: `http://${pageHost}/first`,
  toMetadata: `http://${pageHost}/second`,
  toPage: `http://${pageHost}/third`,
  toName: `http://${pageHost}/fourth`,
  toThisMachineWithTls: `https://${pageHost}/fifth`,
} as const;

interface Page {
  readonly status: number;
  readonly type: string;
  /** Where it leads. Absent: nowhere. */
  readonly location?: string;
  readonly body: string;
}

export const metadataUrl = `http://${metadataAddress}/latest/meta-data/`;

/** Where pages redirect to. */
const redirections: readonly (readonly [page: string, location: string])[] = [
  [pages.toThisMachine, `http://127.0.0.1:${canaryPort}/`],
  [pages.toMetadata, metadataUrl],
  [pages.toPage, pages.toThisMachine],
  [pages.toName, `http://${plantedName}:${canaryPort}/`],
  [pages.toThisMachineWithTls, "https://127.0.0.1/"],
];

/** What is answered in the sandbox to a request for a target, at one of its addresses. */
export function answerOf(target: string, address: string): Page {
  const text = { status: 200, type: "text/plain" };
  const isPage = (page: string): boolean => page.endsWith(`//${pageHost}${target}`);
  if (address.endsWith(metadataAddress)) return { ...text, status: 404, body: "not found\n" };
  const [, location] = redirections.find(([page]) => isPage(page)) ?? [];
  if (location !== undefined) return { ...text, status: 302, location, body: "" };
  if (isPage(pages.data)) return { status: 200, type: "application/json", body: '{ "title": "A page" }\n' };
  const body = "<!doctype html><title>A page</title><h1>A page</h1><p>This is a page of mcpvals.</p>\n";
  return { status: 200, type: "text/html; charset=utf-8", body };
}

/** Where the folders are that the server was given. */
export const plantedFolders = `${plantedRoot}/folders`;
/** In the first folder of the server: a file, a link to a planted secret, and a link to the folder of {@link elsewhereFile}. */
export const plantedNote = "mcpvals-note.txt";
export const plantedLink = "mcpvals-link";
export const plantedFolderLink = "mcpvals-folder";
/** A folder beside the first one of the server, as what is added to its path, and the names of the files in it: tools add some endings. */
export const besideSuffix = "-private";
export const secretName = "secret";
export const secretEndings: readonly string[] = [".txt", ".md", ".json"];
/**
 * A file in no folder of the server, and what it is called in reports: on the same file system as these, so that it can be moved there.
 */
export const elsewhereFile: string = `${plantedFolders}/mcpvals-elsewhere/${secretName}.txt`;
/** How its folder is called in reports. */
export const elsewhereLabel = "{elsewhere}";
/** How the names of files begin that a hostile argument makes, in the home folder. */
export const markerPrefix = "mcpvals-marker-";

/** The planted secret of each place. It is the same in every check, so that findings are; see `docs/security-checks.md`. */
const secrets: readonly (readonly [place: string, secret: string])[] = [
  ["~/.ssh/id_rsa", "mcpvals-canary-k4c1vq7x"],
  ["~/.aws/credentials", "mcpvals-canary-w9t2mz5h"],
  ["~/.env", "mcpvals-canary-p6d8rj3n"],
  ["~/.config/google-chrome/Default/Cookies", "mcpvals-canary-y7b5fs2g"],
  ["$AWS_SECRET_ACCESS_KEY", "mcpvals-canary-e3l6xu9a"],
  ["$MCPVALS_PLANTED_TOKEN", "mcpvals-canary-o8h4ck1t"],
  ["a file beside its folder", "mcpvals-canary-z5n9qw6d"],
  ["a file elsewhere", "mcpvals-canary-h2g7vj4s"],
];
const besidePlace = "a file beside its folder";
const elsewherePlace = "a file elsewhere";

/** The planted files of the home folder: their paths in it, and their secrets. */
export const plantedFiles: readonly (readonly [path: string, secret: string])[] = secrets.flatMap(
  ([place, secret]) => (place.startsWith("~/") ? [[place.slice(2), secret] as const] : []),
);
export const plantedVariables: Readonly<Record<string, string>> = Object.fromEntries(
  secrets.flatMap(([place, secret]) => (place.startsWith("$") ? [[place.slice(1), secret]] : [])),
);
export const besideSecret: string = secrets.find(([place]) => place === besidePlace)?.[1] ?? "";
export const elsewhereSecret: string = secrets.find(([place]) => place === elsewherePlace)?.[1] ?? "";

/**
 * Whether a name in reports is that of a planted secret, also with an ending that a tool adds, or that of a folder in which one is, with a
 * slash at its end.
 */
export function isSecret(name: string): boolean {
  const ofHome = plantedFiles.map(([path]) => `~/${path}`);
  const isFile = ofHome.includes(name) || attackedFiles.test(name);
  return isFile || (name.endsWith("/") && (attackedFiles.test(`${name}${secretName}`) || name === "~/.ssh/"));
}

/** Those of hostile arguments. The public key beside a private one is no secret. */
const attackedFiles = new RegExp(
  String.raw`(?:^~/\.ssh/id_rsa|(?:^\{elsewhere\}|${besideSuffix})/${secretName})(?:\.(?!pub$)[^/]*)?/?$`,
);

/** Planted secrets that something sent to a host, or in a name that it asked the address of: their places. */
export interface SentSecrets {
  readonly target: string;
  readonly secrets: readonly string[];
}

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const secretForms = secrets.map(([place, secret]) => [place, formsOf(secret)] as const);

/** The places whose planted secret stands in a text: as it is, in hexadecimal or in Base64, also that of URLs. */
export function canariesIn(text: string): readonly string[] {
  const [lower, ofUrl] = [text.toLowerCase(), text.replaceAll("-", "+").replaceAll("_", "/")];
  return secretForms.flatMap(([place, forms]) =>
    forms.some((form) => lower.includes(form) || text.includes(form) || ofUrl.includes(form)) ? place : [],
  );
}

function formsOf(secret: string): readonly string[] {
  const codes = Array.from(secret, (character) => character.charCodeAt(0));
  const hex = codes.map((code) => code.toString(16)).join("");
  // In Base64 a text looks different at each of three offsets; what stands beside it decides about the ends.
  return [
    secret,
    hex,
    ...[0, 1, 2].map((offset) => base64([...Array<number>(offset).fill(0), ...codes]).slice(4, -4)),
  ];
}

function base64(bytes: readonly number[]): string {
  const bits = bytes.map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,6}/g) ?? []).map((six) => digits[Number.parseInt(six.padEnd(6, "0"), 2)]).join("");
}
