import { expect, test } from "vitest";
import { mentionBefore, mentionedIn, partsOf, suggestionsFor } from "./mentions";

const people = [
  { id: "1", name: "Maya Fischer" },
  { id: "2", name: "Maya" },
  { id: "3", name: "Tom (Board) Okafor" },
];

test("a mention is being typed after an @ that begins a word", () => {
  expect(mentionBefore("Hello @ma", 9)).toEqual({ start: 6, typed: "ma" });
  expect(mentionBefore("@", 1)).toEqual({ start: 0, typed: "" });
  expect(mentionBefore("Hello @Maya Fi", 14)).toEqual({ start: 6, typed: "Maya Fi" });
  expect(mentionBefore("maya@example", 12)).toBeNull();
  expect(mentionBefore("Hello @ma\nnext", 14)).toBeNull();
  expect(mentionBefore("Hello @ma", 5)).toBeNull();
});

test("people are found by the beginning of any of their names", () => {
  expect(suggestionsFor("fi", people).map(({ id }) => id)).toEqual(["1"]);
  expect(suggestionsFor("", people)).toHaveLength(3);
  expect(suggestionsFor("", people, 2)).toHaveLength(2);
  expect(suggestionsFor("x", people)).toEqual([]);
});

test("the longer of two names is meant", () => {
  expect(mentionedIn("@Maya Fischer, and @Maya", people)).toEqual(["1", "2"]);
  expect(mentionedIn("@Mayas are no people", people)).toEqual([]);
  expect(mentionedIn("@Tom (Board) Okafor! @Tom (Board) Okafor", people)).toEqual(["3"]);
  expect(partsOf("Hi @Maya!", people)).toEqual(["Hi ", people[1], "!"]);
  expect(partsOf("", people)).toEqual([]);
});
