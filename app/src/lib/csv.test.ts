import { expect, test } from "vitest";
import { decodeText, toCsv } from "./csv";

const utf16 = (text: string, littleEndian: boolean) => {
  const bytes = new DataView(new ArrayBuffer(text.length * 2));
  for (let index = 0; index < text.length; index += 1) bytes.setUint16(index * 2, text.charCodeAt(index), littleEndian);
  return new Uint8Array(bytes.buffer);
};

test("parses CSV of spreadsheets", () => {
  expect(decodeText(new TextEncoder().encode("\ufeffZoë"))).toBe("Zoë");
  expect(decodeText(utf16("\ufeffZoë", true))).toBe("Zoë");
  expect(decodeText(utf16("\ufeffZoë", false))).toBe("Zoë");
  expect(decodeText(new Uint8Array([0x5a, 0x6f, 0xeb]))).toBe("Zoë");
});

test("quotes values and escapes formulas", () => {
  expect(
    toCsv([
      ["a", 'say "hi"', "x, y"],
      ["=1+1", "-2", "two\nlines"],
    ]),
  ).toBe('\ufeffa,"say ""hi""","x, y"\r\n\'=1+1,\'-2,"two\nlines"\r\n');
});
