import {
  generateKeyPairSync,
  hash,
  type KeyObject,
  createPrivateKey,
  createPublicKey,
  sign,
} from "node:crypto";

/** An authority for certificates, and its key, which that of each of its certificates is, too: both as PEM. */
export interface Authority {
  readonly key: string;
  readonly certificate: string;
}

/**
 * Makes an authority that only what runs in a sandbox trusts, so that hosts can be played there with TLS. Its certificates are written as
 * RFC 5280 says, and signed with ECDSA (RFC 5758).
 */
export function createAuthority(): Authority {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const key = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const certificate = certificateOf(privateKey, authorityName, (keyId) => [
    extension("551d13", sequence(der(0x01, "ff")), true), // basicConstraints: it is an authority
    extension("551d0f", der(0x03, "0204"), true), // keyUsage: it signs certificates
    extension("551d0e", der(0x04, keyId)), // subjectKeyIdentifier
  ]);
  return { key, certificate };
}

/** A certificate, as PEM, for the name of a host or an address. */
export function certificateFor(host: string, { key }: Pick<Authority, "key">): string {
  return certificateOf(createPrivateKey(key), host, (keyId) => [
    extension("551d11", sequence(alternativeName(host))), // subjectAltName
    extension("551d23", sequence(der(0x80, keyId))), // authorityKeyIdentifier
  ]);
}

const authorityName = "mcpvals";
const dayMs = 24 * 60 * 60 * 1000;
const ecdsaWithSha256 = sequence(objectId("2a8648ce3d040302"));

function certificateOf(
  key: KeyObject,
  subject: string,
  extensionsOf: (keyId: Buffer) => readonly Buffer[],
): string {
  const publicKey = createPublicKey(key).export({ type: "spki", format: "der" });
  const content = sequence(
    der(0xa0, der(0x02, "02")), // version 3
    der(0x02, "01", hash("sha256", `${subject} ${Date.now()}`).slice(0, 16)), // serial number, positive
    ecdsaWithSha256,
    nameOf(authorityName),
    sequence(time(Date.now() - dayMs), time(Date.now() + dayMs)),
    nameOf(subject),
    publicKey,
    der(0xa3, sequence(...extensionsOf(Buffer.from(hash("sha1", publicKey), "hex")))),
  );
  const signature = der(0x03, "00", sign("sha256", content, key));
  const base64 = sequence(content, ecdsaWithSha256, signature).toString("base64");
  return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}(?=.)/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(objectId(id), ...(isCritical ? [der(0x01, "ff")] : []), der(0x04, value));
}

function alternativeName(host: string): Buffer {
  if (/^[\d.]+$/.test(host)) return der(0x87, Buffer.from(host.split(".").map(Number)));
  // The only address of IPv6 that a sandbox has.
  return host === "::1" ? der(0x87, `${"00".repeat(15)}01`) : der(0x82, Buffer.from(host, "latin1"));
}

/** A distinguished name of a common name; RFC 5280 lets it have 64 characters. */
function nameOf(text: string): Buffer {
  return sequence(der(0x31, sequence(objectId("550403"), der(0x0c, Buffer.from(text.slice(0, 64))))));
}

function time(ms: number): Buffer {
  const [, digits = ""] = /^20(.*)\./.exec(new Date(ms).toISOString()) ?? [];
  return der(0x17, Buffer.from(`${digits.replaceAll(/\D/g, "")}Z`));
}

function objectId(hex: string): Buffer {
  return der(0x06, hex);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, ...parts);
}

/** A value in the Distinguished Encoding Rules (X.690): its tag, how long it is, and its parts; texts are hexadecimal. */
function der(tag: number, ...parts: readonly (Buffer | string)[]): Buffer {
  const content = Buffer.concat(
    parts.map((part) => (typeof part === "string" ? Buffer.from(part, "hex") : part)),
  );
  const { length } = content;
  const head =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}
