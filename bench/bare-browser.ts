import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { chromiumPath } from "../test/dashboard/browser.ts";

interface PageToOpen {
  /** Behind the `#` of the address. */
  readonly hash: string;
  /** A selector of what is there when the page can be used. */
  readonly opened: string;
}

/**
 * Milliseconds that pages of an app take to open, each in a new document, in a Chromium of which nothing is recorded. `start` is an address of
 * the app that is opened first, for its cookie. Rejects when there is no Chromium.
 */
export async function timeOpening(start: string, pages: readonly PageToOpen[]): Promise<readonly number[]> {
  const profile = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const options = ["--headless", "--no-sandbox", "--no-first-run", "--disable-background-networking"];
  const browser = spawn(
    chromiumPath ?? "chromium",
    [...options, "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  try {
    using page = await connect(await debuggingAddress(browser));
    await page.open(start, "table");
    const times: number[] = [];
    for (const { hash, opened } of pages) {
      await page.open("about:blank", "body");
      const started = performance.now();
      await page.open(new URL(`/#${hash}`, start).href, opened);
      times.push(performance.now() - started);
    }
    return times;
  } finally {
    browser.kill();
    await once(browser, "exit");
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** `host:port` at which the browser can be controlled. */
async function debuggingAddress(browser: ChildProcess): Promise<string> {
  let output = "";
  for await (const chunk of browser.stderr ?? []) {
    output += String(chunk);
    const [, address] = /DevTools listening on ws:\/\/([^/]+)\//.exec(output) ?? [];
    if (address !== undefined) return address;
  }
  throw new Error(`Chromium did not start: ${output}`);
}

interface ControlledPage extends Disposable {
  /** Goes to an address, and waits until a selector finds something. */
  readonly open: (address: string, selector: string) => Promise<void>;
}

/** Controls the first page by the Chrome DevTools Protocol. */
async function connect(address: string): Promise<ControlledPage> {
  const targets = (await (await fetch(`http://${address}/json`)).json()) as readonly {
    readonly type: string;
    readonly webSocketDebuggerUrl: string;
  }[];
  const socket = new WebSocket(targets.find(({ type }) => type === "page")?.webSocketDebuggerUrl ?? "");
  await once(socket, "open");
  let last = 0;
  const send = async (
    method: string,
    params: object,
  ): Promise<{ readonly result?: { readonly value?: unknown } }> => {
    const id = (last += 1);
    socket.send(JSON.stringify({ id, method, params }));
    for (;;) {
      const [{ data }] = (await once(socket, "message")) as [MessageEvent];
      const answer = JSON.parse(String(data)) as { readonly id?: number; readonly result?: object };
      if (answer.id === id) return answer.result ?? {};
    }
  };
  return {
    async open(url, selector) {
      await send("Page.navigate", { url });
      const expression = `document.querySelector(${JSON.stringify(selector)}) !== null`;
      while ((await send("Runtime.evaluate", { expression, returnByValue: true })).result?.value !== true)
        await pause(10);
    },
    [Symbol.dispose]: () => socket.close(),
  };
}
