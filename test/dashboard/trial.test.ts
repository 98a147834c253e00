import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TrialDocument } from "../../src/core/view/documents.ts";
import { runHere } from "../support/cli.ts";
import { everythingServer, exampleServer } from "../support/programs.ts";
import { faultsOfPages, hasBrowser, type Look, openPage, startBrowser } from "./browser.ts";
import { runAndOpen } from "./support.ts";

const hostile =
  '<img src=x onerror="pwned=1"> </script><script>pwned=1</script> javascript:pwned=1 \u202egnp\u001b[31m';
const shownHostile = String.raw`<img src=x onerror="pwned=1"> </script><script>pwned=1</script> javascript:pwned=1 \u202egnp\x1b[31m`;
const large = `begin ${"all work and no play ".repeat(20_000)}end`;

/** More than fits on a screen, as a reason and as calls. */
const longReason = Array.from({ length: 40 }, (_, n) => `words that are missing ${n}`);
const manyCalls = Array.from({ length: 60 }, (_, a) => ({ call: "add", args: { a, b: 1 } }));

/**
 * A trial with two servers, a step, calls that succeed, fail, do not fit, and return an image; one that fails; one that fails for
 * a long reason after many calls.
 */
const config = {
  name: "shop",
  servers: {
    calc: { transport: "stdio", command: process.execPath, args: [exampleServer] },
    everything: { transport: "stdio", command: process.execPath, args: [everythingServer] },
    shop: {
      transport: "mock",
      mock: {
        tools: {
          say: { description: hostile, responses: [{ return: hostile }] },
          tell: { responses: [{ return: large }] },
        },
      },
    },
  },
  agent: "careful",
  workflows: [
    {
      name: "sum",
      servers: ["calc", "everything", "shop"],
      steps: [{ user: hostile, expectedState: "5" }],
      expectTools: ["add"],
    },
    {
      name: "wrong sum",
      servers: ["calc"],
      steps: [{ user: "What is 2 + 3?", expectedState: "5" }],
      expectTools: ["add"],
    },
    {
      name: "long",
      servers: ["calc"],
      steps: [{ user: "Add.", expectedState: "added" }],
      graders: [{ type: "text", name: "says it", config: { contains: longReason } }],
    },
  ],
  agents: {
    careful: {
      type: "scripted",
      plan: {
        sum: [
          { call: "add", server: "calc", args: { a: 2, b: 3 } },
          { call: "add", server: "calc", args: { a: "two", b: 3 } },
          { call: "get-tiny-image", args: {} },
          { call: "say", args: { [hostile]: hostile } },
          { call: "tell", args: {} },
          { say: `It is 5. ${hostile}` },
        ],
        "wrong sum": [{ call: "add", args: { a: 2, b: 2 } }, { say: "It is 4." }],
        long: [...manyCalls, { say: "It is added." }],
      },
    },
  },
};

let dashboard: Awaited<ReturnType<typeof runAndOpen>>;
let browser: Browser;
let report = "";
let trial: TrialDocument;

beforeAll(async () => {
  if (!hasBrowser) return;
  dashboard = await runAndOpen(config, { args: ["run", "--reporter", "html=report.html"] });
  report = join(dashboard.path, "report.html");
  trial = await dashboard.json<TrialDocument>(`runs/${dashboard.id}/trials/t1`);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await dashboard?.[Symbol.asyncDispose]();
});

const wide: Look = { theme: "light", width: 1280 };
const open = (look: Look = wide) => openPage(browser, dashboard.served.address(), look);
const trialPath = (id = "t1"): string => `/runs/${dashboard.id}/trials/${id}`;
const items = (page: Page) => page.getByRole("region", { name: "What happened" }).getByRole("button");
const details = (page: Page) => page.getByRole("complementary");
/** The number of the event with which the call of a tool begins. */
const callOf = (tool: string, nth = 0): number =>
  trial.items.filter((item) => item.kind === "call" && item.tool === tool)[nth]?.seq ?? 0;

describe.skipIf(!hasBrowser)("the page of a trial", () => {
  it("is accessible, fits and loads nothing from elsewhere, light and dark, on a wide screen and on a phone", async () => {
    await using opened = await open();
    const views = ["", "?show=all", "?view=grades", "?view=events&event=12", "?view=task"];
    const faults = await faultsOfPages(opened, [
      ...views.map((view) => trialPath() + view),
      `${trialPath()}?event=${callOf("add", 1)}`,
      trialPath("t2"),
      `/compare/trials?a=${dashboard.id}/t1&b=${dashboard.id}/t2`,
      "/compare/trials",
    ]);
    expect(faults).toEqual([]);
    expect(await opened.page.evaluate("'pwned' in window")).toBe(false);
  });

  it("shows prompts, calls and results of servers as text", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    await items(page)
      .filter({ hasText: `User${shownHostile}` })
      .waitFor();
    await items(page)
      .filter({ hasText: `It is 5. ${shownHostile}` })
      .waitFor();
    await go(`${trialPath()}?event=${callOf("say")}`);
    await details(page).getByText(shownHostile).first().waitFor();
    expect(await page.locator("main img").count()).toBe(0);
  });

  it("says what of the arguments does not fit, and which grades cite a call", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`${trialPath()}?event=${callOf("add", 1)}`);
    const faults = details(page).getByRole("list", { name: "What does not fit the schema of the tool" });
    expect(await faults.innerText()).toMatch(/^\/a: .*number/);
    await details(page).getByText("failed", { exact: true }).waitFor();
    await details(page).getByRole("heading", { name: "Evidence of" }).waitFor();
    await details(page).getByText("tool-call-health").waitFor();
  });

  it("shows an image of a tool when asked to", async () => {
    await using opened = await open();
    const { page, problems, go } = opened;
    await go(`${trialPath()}?event=${callOf("get-tiny-image")}`);
    await page.getByRole("button", { name: "Show the image" }).click();
    await page.getByRole("img", { name: "From the result of the tool" }).waitFor();
    const width = () => page.evaluate<number>("document.querySelector('main img').naturalWidth");
    await expect.poll(width).toBeGreaterThan(0);
    expect(problems).toEqual([]);
  });

  it("shows a large text in parts", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`${trialPath()}?event=${callOf("tell")}`);
    const text = details(page).locator("pre").nth(1);
    expect((await text.innerText()).length).toBeLessThan(1000);
    for (const least of [50_000, 100_000]) {
      await details(page)
        .getByRole("button", { name: /^Show more/ })
        .click();
      await expect.poll(async () => (await text.innerText()).length).toBeGreaterThanOrEqual(least);
    }
  });

  it("moves through items with the keyboard, and keeps the selected one in the address", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    await page.keyboard.press("j");
    await details(page).getByRole("heading", { name: "User" }).waitFor();
    await page.keyboard.press("j");
    await details(page).getByRole("heading", { name: "add" }).waitFor();
    expect(page.url()).toContain(`event=${callOf("add")}`);
    await page.keyboard.press("k");
    await details(page).getByRole("heading", { name: "User" }).waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => details(page).count()).toBe(0);
    await page.keyboard.press("]");
    await page.getByRole("heading", { level: 1, name: "wrong sum" }).waitFor();
  });

  it.each([
    ["a wide screen", 1280],
    ["a phone", 390],
  ])("brings the selected item and its details into view on %s", async (_, width) => {
    await using opened = await open({ theme: "light", width });
    const { page, go } = opened;
    const long = await dashboard.json<TrialDocument>(`runs/${dashboard.id}/trials/t3`);
    const calls = long.items.filter(({ kind }) => kind === "call");
    const selected = page.locator("main [aria-pressed=true]");
    const inView = async (): Promise<boolean> => {
      const { height = 0 } = page.viewportSize() ?? {};
      const [row, pane] = [await selected.boundingBox(), await details(page).boundingBox()];
      const list = await page.getByRole("region", { name: "What happened" }).boundingBox();
      if (row === null || pane === null || list === null) return false;
      const isIn = (box: { y: number; height: number }, { y, height: most }: { y: number; height: number }) =>
        box.y >= y - 1 && box.y + box.height <= y + most + 1;
      const screen = { y: 0, height };
      return isIn(row, list) && isIn(list, screen) && isIn(pane, screen) && pane.height > 150;
    };
    const seq = calls[40]?.seq ?? 0;
    await go(`${trialPath("t3")}?event=${seq}`);
    await expect.poll(inView).toBe(true);
    await page.reload();
    await expect.poll(inView).toBe(true);
    await page.keyboard.press("k");
    await expect.poll(() => page.url()).toContain(`event=${calls[39]?.seq}`);
    await expect.poll(inView).toBe(true);
    await page.keyboard.press("Escape");
    await expect.poll(() => details(page).count()).toBe(0);
    const reasons = page.getByRole("list", { name: "Why it did not pass" });
    await reasons.getByRole("button", { name: "Show all" }).click();
    await reasons.getByRole("button", { name: "Show less" }).waitFor();
    await reasons.getByRole("link").last().click();
    await expect.poll(inView).toBe(true);
  });

  it("says of an event that the trial does not have it, and links one that is no item of its own", async () => {
    await using opened = await open();
    const { page, go } = opened;
    for (const view of ["", "view=events&"]) {
      await go(`${trialPath()}?${view}event=99999`);
      await page.getByRole("alert").getByText("This trial has no event 99999.").waitFor();
      expect(await details(page).count()).toBe(0);
    }
    const graded = trial.events.find(({ type }) => type === "trial.graded")?.seq ?? 0;
    await go(`${trialPath()}?event=${graded}`);
    await details(page).getByRole("heading", { name: "trial.finished" }).waitFor();
    await details(page)
      .getByRole("link", { name: `Event ${graded} as it was recorded` })
      .waitFor();
    const end = trial.items.find((item) => item.kind === "event" && item.type === "trial.finished");
    expect(end?.durationMs).toBeUndefined();
    expect(end?.at).toBe(trial.events.find(({ type }) => type === "trial.finished")?.at);
  });

  it("replays a trial item by item, and at a chosen speed", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    const all = await items(page).count();
    for (const [key, count] of [
      [".", 1],
      [".", 2],
      [".", 3],
      [",", 2],
      [",", 1],
      [",", 0],
    ] as const) {
      await page.keyboard.press(key);
      await expect.poll(() => items(page).count()).toBe(count);
    }
    await page.getByLabel("Speed of the replay").selectOption("50×");
    await page.getByRole("button", { name: "Play" }).click();
    await expect.poll(() => items(page).count()).toBe(all);
    await page.getByRole("button", { name: "Play" }).waitFor();
    await page.keyboard.press("0");
    await page.getByRole("button", { name: "Replay" }).waitFor();
  });

  it("selects in the waterfall what is clicked, enlarges what is drawn, and filters by lane", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath());
    const canvas = page.getByRole("img", { name: /^Waterfall/ });
    const box = await canvas.boundingBox();
    const end = Math.max(...trial.items.map(({ at, durationMs = 0 }) => at + durationMs));
    const call = trial.items.find(({ seq }) => seq === callOf("tell"));
    const lanes = await page
      .getByRole("list", { name: "Lanes of the waterfall" })
      .getByRole("listitem")
      .allInnerTexts();
    expect(lanes).toEqual(["agent", "calc", "everything", "shop"]);
    if (box === null || call === undefined) throw new Error("there is no waterfall, or no call in it");
    const x = ((call.at + (call.durationMs ?? 0) / 2) / end) * box.width;
    const y = 18 + 22 * lanes.indexOf("shop") + 11;
    await canvas.hover({ position: { x, y } });
    const waterfall = page.getByTestId("waterfall");
    const before = await waterfall.boundingBox();
    await canvas.click({ position: { x, y } });
    await details(page).waitFor();
    expect((await waterfall.boundingBox())?.height).toBe(before?.height);
    // The page may have scrolled to the details.
    const at = (await canvas.boundingBox())?.y ?? 0;
    const from = box.x + box.width / 2;
    await page.mouse.move(from, at + y);
    await page.mouse.down();
    await page.mouse.move(from + 100, at + y);
    await page.mouse.up();
    await page.getByRole("button", { name: "Show all" }).click();
    await page.getByLabel("Lane", { exact: true }).selectOption("everything");
    await page.keyboard.press("Escape");
    await expect.poll(() => items(page).count()).toBe(1);
  });

  it("marks calls that failed grades cite, without a verdict on the calls themselves", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath("t2"));
    await items(page)
      .filter({ hasText: /add.*evidence of a fail/ })
      .waitFor();
    await go(trialPath());
    expect(await items(page).filter({ hasText: "trial.graded" }).count()).toBe(0);
  });

  it("leads from a failed grade to its evidence, and to the events as they were recorded", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(trialPath("t2"));
    const reasons = page.getByRole("list", { name: "Why it did not pass" });
    await reasons.getByText("end-to-end-success").waitFor();
    await reasons.getByRole("link").first().click();
    await details(page).waitFor();
    await details(page)
      .getByRole("link", { name: /as it was recorded$/ })
      .first()
      .click();
    await page.getByRole("heading", { name: /^Event \d+$/ }).waitFor();
    await details(page).getByText('"jsonrpc"').or(details(page).getByText('"type"')).first().waitFor();
  });

  it("aligns the calls of two trials", async () => {
    await using opened = await open();
    const { page, go } = opened;
    await go(`/compare/trials?a=${dashboard.id}/t1&b=${dashboard.id}/t2`);
    await page.getByText("5 of 5 calls differ").waitFor();
    const relations = await page.locator("tbody td:first-child").allInnerTexts();
    expect(relations).toEqual(["changed: arguments, result", "only A", "only A", "only A", "only A"]);
  });
});

describe.skipIf(!hasBrowser)("the reporter html", () => {
  it("writes a page that shows the run without a server, with nothing from elsewhere", async () => {
    await using opened = await openPage(browser, pathToFileURL(report).href, wide);
    const { page, go } = opened;
    await page.getByRole("heading", { level: 1, name: "shop" }).waitFor();
    await page
      .getByRole("link", { name: /^Attempt 1: Fail/ })
      .first()
      .click();
    await page.getByRole("tab", { name: /^Events/ }).click();
    await page.getByRole("region", { name: "Events" }).getByRole("button").nth(3).click();
    await page.getByText('"trial"').first().waitFor();
    await go(`${trialPath()}?event=${callOf("get-tiny-image")}`);
    await page.getByRole("button", { name: "Show the image" }).click();
    await page.getByRole("img", { name: "From the result of the tool" }).waitFor();
    await go(`${trialPath()}?event=${callOf("say")}`);
    await page.getByText(shownHostile).first().waitFor();
    const faults = await faultsOfPages(opened, ["/", `/runs/${dashboard.id}/servers`, trialPath()]);
    expect(faults).toEqual([]);
    expect(await page.evaluate("'pwned' in window")).toBe(false);
  });

  it("is small without its data, and can be written again for a recorded run", async () => {
    const text = readFileSync(report, "utf8");
    const [, data = ""] = /<script type="application\/json" id="report">(.*?)<\/script>/s.exec(text) ?? [];
    expect(data.length).toBeGreaterThan(10_000);
    expect(statSync(report).size - Buffer.byteLength(data)).toBeLessThan(2_000_000);
    const cwd = dashboard.path;
    const { code } = await runHere(["show", "--reporter", "html=again.html"], { cwd });
    expect(code).toBe(1);
    // Validation has a limit of time, so what is known of arguments may differ.
    const runIn = (page: string) => /id="report">(.*?),"trials":\{/s.exec(page)?.[1];
    expect(runIn(readFileSync(join(cwd, "again.html"), "utf8")) === runIn(text)).toBe(true);
    expect(runIn(text)).toContain(dashboard.id);
  });
});
