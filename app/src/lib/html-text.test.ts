import { expect, test } from "vitest";
import { htmlToText, textToHtml } from "./html-text";

test.each(["One line", "Two\nlines", "Two\n\nparagraphs\nand a line", 'A < B & "C" > D', "<script>alert(1)</script>"])(
  "text survives the way to HTML and back: %j",
  (text) => {
    expect(htmlToText(textToHtml(text))).toBe(text);
  },
);

test("escapes markup", () => {
  expect(textToHtml("<b>bold</b>")).toBe("<p>&lt;b&gt;bold&lt;/b&gt;</p>");
});

test("converts empty text to null and back", () => {
  expect(textToHtml(" \n\n ")).toBeNull();
  expect(htmlToText(null)).toBe("");
});

test("converts lists to lines", () => {
  expect(htmlToText("<p>To do</p><ul><li>One</li><li>Two</li></ul>")).toBe("To do\n\nOne\nTwo");
});
