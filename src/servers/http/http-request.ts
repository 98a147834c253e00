import { type IncomingMessage, request as requestHttp } from "node:http";
import type { Readable } from "node:stream";
import { codeOf } from "../../base/error.ts";
import type { HttpResponse, SendRequest } from "../connections/host.ts";

/**
 * Sends a request over HTTP, on a connection that is kept for the next one; in place of `fetch`, whose streams and events take longer than
 * the rest of a call through the gateway. Follows no redirect. Rejects with the system's error when there is no response, and with the
 * reason of the signal.
 */
export const sendRequest: SendRequest = async (url, { method, headers, body, signal, isRepeatable }) => {
  const request = url.protocol === "https:" ? (await import("node:https")).request : requestHttp;
  signal?.throwIfAborted();
  const open = (isAgain: boolean): Promise<IncomingMessage> =>
    new Promise((resolve, reject) => {
      const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
      const sent = request(url, { method, headers: { "user-agent": "mcpvals", ...headers, ...length } });
      let stop = (): unknown => sent.destroy();
      const abort = (): unknown => stop();
      // Not the option `signal`: it breaks the kept connection of a request that has just ended.
      signal?.addEventListener("abort", abort, { once: true });
      sent.once("close", () => signal?.removeEventListener("abort", abort));
      sent.once("response", (response) => {
        stop = () => response.destroy();
        // Whoever reads the body gets its errors.
        response.on("error", () => undefined);
        resolve(response);
      });
      sent.on("error", (error) => {
        const isStale = sent.reusedSocket && codeOf(error) === "ECONNRESET";
        if (signal?.aborted === true) reject(signal.reason as Error);
        else if (isRepeatable === true && isStale && !isAgain) resolve(open(true));
        else reject(error);
      });
      sent.end(body);
    });
  const message = await open(false);
  const { statusCode: status = 0, statusMessage: statusText = "" } = message;
  return {
    status,
    statusText,
    ok: status >= 200 && status < 300,
    headers: headersOf(message),
    body: await unpacked(message),
    cancel() {
      // A connection is kept only if all of the body has been read.
      if (message.complete) message.resume();
      else message.destroy();
    },
  };
};

function headersOf({ headersDistinct }: IncomingMessage): HttpResponse["headers"] {
  return Object.fromEntries(
    Object.entries(headersDistinct).map(([name, values]) => [name, values?.join(", ")]),
  );
}

/** Some servers pack a body unasked. */
async function unpacked(message: IncomingMessage): Promise<Readable> {
  const packing = message.headers["content-encoding"]?.toLowerCase();
  if (packing === undefined || packing === "identity") return message;
  const { createBrotliDecompress, createUnzip } = await import("node:zlib");
  const { pipeline } = await import("node:stream");
  // Its errors come with those of the body.
  return pipeline(message, packing === "br" ? createBrotliDecompress() : createUnzip(), () => undefined);
}
