import type { ServerResponse } from "node:http";

/** Answers with a JSON-RPC error that belongs to no request, as MCP servers over HTTP do. */
export function answerError(
  response: ServerResponse,
  status: number,
  error: { readonly code: number; readonly message: string },
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = JSON.stringify({ jsonrpc: "2.0", error, id: null });
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

/** Writes, and waits while the other side reads too slowly; settles too when it has gone. */
export async function writeTo(response: ServerResponse, bytes: Uint8Array | string): Promise<void> {
  if (response.destroyed || response.writableEnded || response.write(bytes)) return;
  await new Promise<void>((resolve) => {
    const done = (): void => {
      response.off("drain", done);
      response.off("close", done);
      resolve();
    };
    response.once("drain", done);
    response.once("close", done);
  });
}
