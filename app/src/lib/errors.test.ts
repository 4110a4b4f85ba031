import { expect, test } from "vitest";
import { codeOf, isNoRows, messageOf } from "./errors";

test.each(["TypeError: Failed to fetch", "NetworkError when attempting to fetch resource.", "Load failed"])(
  "each browser's word for offline becomes ours: %s",
  (message) => {
    expect(messageOf({ message })).toBe("The server could not be reached. Check your connection and try again.");
  },
);

test("returns the server's message", () => {
  expect(messageOf({ code: "23514", message: "new row violates check constraint" })).toBe(
    "new row violates check constraint",
  );
});

test.each([null, undefined, "text", {}, { message: 7 }, { message: " " }, { message: "{}" }])(
  "anything else is %j",
  (error) => {
    expect(messageOf(error, "fallback")).toBe("fallback");
    expect(codeOf(error)).toBeNull();
  },
);

test("recognises a missing row by its code", () => {
  expect(isNoRows({ code: "PGRST116" })).toBe(true);
  expect(isNoRows({ code: "PGRST301" })).toBe(false);
});
