import { describe, expect, it } from "vitest";
import { explainUnreachable, shownUrl } from "./http-errors.ts";

const coded = (code: string): Error => Object.assign(new Error("low"), { code });
const message = (cause: unknown): string => explainUnreachable("s", "http://h/mcp?k=1", cause).message;

describe("shownUrl", () => {
  it("leaves out possible secrets", () => {
    expect(shownUrl("https://user:pass@host.example:8443/a/b?key=secret#part")).toBe(
      "https://host.example:8443/a/b?…",
    );
    expect(shownUrl(new URL("http://localhost/mcp"))).toBe("http://localhost/mcp");
    expect(shownUrl("no url")).toBe("no url");
  });
});

describe("explainUnreachable", () => {
  it("finds the reason of the system under the error of fetch", () => {
    const refused = new TypeError("fetch failed", { cause: coded("ECONNREFUSED") });
    expect(message(refused)).toBe('server "s" at http://h/mcp?…: connection refused');
    const everyAddress = new TypeError("fetch failed", {
      cause: new AggregateError([coded("ECONNREFUSED"), coded("ENETUNREACH")]),
    });
    expect(message(everyAddress)).toContain("connection refused");
    expect(explainUnreachable("s", "http://h", refused).cause).toBe(refused);
  });

  it("gives the message of the cause where the code is missing or unknown", () => {
    const badPort = new TypeError("fetch failed", { cause: new Error("bad port") });
    expect(message(badPort)).toBe('server "s" at http://h/mcp?…: the connection failed: bad port');
    const unknown = new TypeError("fetch failed", { cause: coded("ENEW") });
    expect(message(unknown)).toBe('server "s" at http://h/mcp?…: the connection failed (ENEW): low');
  });

  it("gives the message when there is no cause", () => {
    expect(message(new TypeError("fetch failed", { cause: coded("ENEW") }))).toContain(
      "the connection failed (ENEW)",
    );
    expect(message(new Error("something else"))).toContain("the connection failed: something else");
    expect(message("text")).toContain("the connection failed: text");
  });
});
