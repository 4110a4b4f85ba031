import { expect, test } from "vitest";
import { decodeText } from "@/lib/csv";
import { parsePriorities, template } from "./import-csv";

test.each(["", "\n\n", "title,description", "title,description\n\n"])("%j has no rows", (text) =>
  expect(parsePriorities(text)).toEqual({ errors: ["CSV file is empty or only contains headers"] }),
);

test("accepts headers in any case and order", () => {
  expect(parsePriorities("Description, TITLE\r\n\r\nWhy,Hubs\r\n")).toEqual({
    priorities: [{ title: "Hubs", description: "Why" }],
  });
});

test("names a missing header", () => {
  expect(parsePriorities("name,description\na,b")).toEqual({ errors: ["Missing required header: title"] });
  expect(parsePriorities("a\nb")).toEqual({
    errors: ["Missing required header: title", "Missing required header: description"],
  });
});

test("names every invalid line and imports nothing", () => {
  expect(parsePriorities("title,description\nHubs,Why\nalone\n,none\n\nab,short")).toEqual({
    errors: ["Line 3: Not enough values", "Line 4: Title is required", "Line 6: Title must be at least 3 characters"],
  });
});

test("accepts semicolons and tabs as separators", () => {
  expect(parsePriorities("title;description\nHubs;Near, and open")).toEqual({
    priorities: [{ title: "Hubs", description: "Near, and open" }],
  });
  expect(parsePriorities("title\tdescription\nHubs\tWhy")).toEqual({
    priorities: [{ title: "Hubs", description: "Why" }],
  });
  expect(parsePriorities("title,description\nHubs,Near, and open")).toEqual({
    priorities: [{ title: "Hubs", description: "Near, and open" }],
  });
});

test("rejects more than 10,000 lines", () => {
  const rows = (count: number) => `title,description\n${"Hubs,Why\n".repeat(count)}`;
  const read = parsePriorities(rows(10_000));
  expect("priorities" in read && read.priorities.length).toBe(10_000);
  expect(parsePriorities(rows(10_001))).toEqual({ errors: ["At most 10,000 priorities at once"] });
});

test("template can be imported unchanged", () => {
  expect(parsePriorities(decodeText(new TextEncoder().encode(template)))).toEqual({
    priorities: [{ title: "Open four neighborhood hubs", description: "Halls within 15 minutes' walk" }],
  });
});
