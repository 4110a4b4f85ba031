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

const rows = (count: number) => `title,description\n${"Hubs,Why\n".repeat(count)}`;

test("rejects more than 200 lines", () => {
  const read = parsePriorities(rows(200));
  expect("priorities" in read && read.priorities.length).toBe(200);
  expect(parsePriorities(rows(5000))).toEqual({
    errors: ["The file has 5,000 priorities; at most 200 can be imported at once"],
  });
});

test("rejects more than the plan has room for", () => {
  expect(parsePriorities(rows(1), 499)).toHaveProperty("priorities");
  expect(parsePriorities(rows(2), 499)).toEqual({
    errors: ["The file has 2 priorities; this plan has room for 1 (at most 500)"],
  });
  // A plan from before the limit.
  expect(parsePriorities(rows(1), 5000)).toEqual({
    errors: ["The file has 1 priority; this plan has room for 0 (at most 500)"],
  });
});

test("template can be imported unchanged", () => {
  expect(parsePriorities(decodeText(new TextEncoder().encode(template)))).toEqual({
    priorities: [{ title: "Open four neighborhood hubs", description: "Halls within 15 minutes' walk" }],
  });
});
