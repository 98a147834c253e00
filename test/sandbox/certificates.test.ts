import { once } from "node:events";
import { connect, createServer, type TLSSocket } from "node:tls";
import { expect, it } from "vitest";
import { certificateFor, createAuthority } from "../../src/sandbox/certificates.ts";

const authority = createAuthority();

/** Connects to a server that has a certificate for one host, and asks for another; gives what is refused. */
async function refusal(
  certified: string,
  asked: string,
  trusted: { readonly certificate: string } = authority,
): Promise<string | undefined> {
  const server = createServer({ key: authority.key, cert: certificateFor(certified, authority) });
  server.on("tlsClientError", () => undefined).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client: TLSSocket = connect({ port, host: "127.0.0.1", servername: asked, ca: trusted.certificate });
  try {
    await once(client, "secureConnect");
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code;
  } finally {
    client.destroy();
    server.close();
  }
}

it.each(["pages.example.com", `${"long.".repeat(30)}example.com`, "127.0.0.1"])(
  "a client that trusts the authority takes its certificate for %s",
  async (host) => {
    // An address is never asked for as a name.
    expect(await refusal(host, host === "127.0.0.1" ? "" : host)).toBeUndefined();
  },
);

it("a certificate is for one host, and other authorities do not make it good", async () => {
  expect(await refusal("a.example.com", "b.example.com")).toBe("ERR_TLS_CERT_ALTNAME_INVALID");
  expect(await refusal("a.example.com", "a.example.com", createAuthority())).toMatch(
    /^(?:CERT_SIGNATURE_FAILURE|UNABLE_TO_VERIFY_LEAF_SIGNATURE)$/,
  );
});
