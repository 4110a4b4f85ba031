import { render } from "@testing-library/react";
import { expect, test } from "vitest";
import { RichText } from "./rich-text";

const shown = (html: string) => render(<RichText html={html} />).container.firstElementChild?.innerHTML;

test("keeps what the editor writes", () => {
  const html = "<p>Warm <strong>meals</strong></p><ul><li>One</li></ul>";
  expect(shown(html)).toBe(html);
});

test.each([
  ["<script>alert(1)</script>", ""],
  ['<img src="https://evil.org/pixel.png" onerror="alert(1)">', ""],
  ['<a href="javascript:alert(1)">x</a>', "<a>x</a>"],
  ['<p class="fixed inset-0" style="color:red" onclick="x()">x</p>', "<p>x</p>"],
  ['<form action="https://evil.org"><input name="password">x</form>', "x"],
  ["<svg><style>*{display:none}</style></svg>", ""],
])("lets nothing else through: %s", (html, clean) => {
  expect(shown(html)).toBe(clean);
});
