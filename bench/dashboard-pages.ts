import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveDashboard } from "../src/dashboard/server.ts";
import { startBrowser } from "../test/dashboard/browser.ts";
import type { Row } from "./measure.ts";
import { runTrials } from "./trial-overhead.ts";

const trials = 100_000;

/** A run of many trials in the dashboard: how long its pages take to open, and how long they stall while they scroll. */
export async function dashboardPages(): Promise<readonly Row[]> {
  const cwd = mkdtempSync(join(tmpdir(), "mcpvals-bench-"));
  const browser = await startBrowser();
  try {
    const { result } = await runTrials(trials, cwd);
    await using dashboard = await serveDashboard({ runs: join(cwd, ".mcpvals", "runs"), cwd, port: 0 });
    const page = await browser.newPage();
    await page.goto(dashboard.address());
    await page.getByRole("table", { name: "Runs" }).waitFor();
    const rows: Row[] = [];
    for (const [name, view] of [
      ["tasks", ""],
      ["trials", "/trials"],
    ] as const) {
      const started = performance.now();
      await page.goto("about:blank");
      await page.goto(`http://127.0.0.1:${dashboard.port}/#/runs/${result.id}${view}`);
      await page.locator("tbody tr a").first().waitFor();
      const opened = performance.now() - started;
      const stall = await page.evaluate<number>(longestStall);
      rows.push({
        name: `dashboard, ${trials} trials, ${name}`,
        measured: `open ${Math.round(opened)} ms, longest stall ${Math.round(stall)} ms`,
        floor: "-",
        target: "open within 2 s, no stall over 100 ms",
        holds: opened < 2000 && stall <= 100,
      });
    }
    return rows;
  } finally {
    await browser.close();
    rmSync(cwd, { recursive: true, force: true });
  }
}

/** Scrolls the long table to its end in steps, one a frame, and gives the longest time between two frames. */
const longestStall = `new Promise((done) => {
  const table = [...document.querySelectorAll("main div")].find((each) => each.scrollHeight > each.clientHeight + 1000);
  const step = table.scrollHeight / 120;
  let longest = 0, before = performance.now(), frames = 0;
  const next = (now) => {
    longest = Math.max(longest, now - before);
    before = now;
    table.scrollTop += frames < 60 ? step * 1.5 : 50;
    frames += 1;
    if (frames < 180) requestAnimationFrame(next); else done(longest);
  };
  requestAnimationFrame((now) => { before = now; requestAnimationFrame(next); });
})`;
