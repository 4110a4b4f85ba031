import * as z from "zod/mini";

/** The sections that the site shows, as administrators know them: the homepage has three. */
export const sections = ["hero", "features", "nonprofits", "pricing", "footer"] as const;
export type Section = (typeof sections)[number];

export const sectionGroups: { label: string; sections: { value: Section; label: string }[] }[] = [
  {
    label: "Homepage",
    sections: [
      { value: "hero", label: "Homepage: Hero" },
      { value: "features", label: "Homepage: Features" },
      { value: "nonprofits", label: "Homepage: For Nonprofits" },
    ],
  },
  { label: "Pricing", sections: [{ value: "pricing", label: "Pricing" }] },
  { label: "Footer", sections: [{ value: "footer", label: "Footer" }] },
];

type Field =
  | "subtitle"
  | "primarybuttontext"
  | "secondarybuttontext"
  | "imageurl"
  | "htmlcontent"
  | "hide_for_subscribed";

/** What of a section the site shows, besides its title and description. */
export const fieldsOf: Record<Section, Field[]> = {
  hero: ["subtitle", "primarybuttontext", "secondarybuttontext", "imageurl"],
  features: ["subtitle", "imageurl"],
  nonprofits: ["subtitle", "primarybuttontext", "imageurl"],
  pricing: ["subtitle", "htmlcontent", "hide_for_subscribed"],
  footer: ["htmlcontent", "hide_for_subscribed"],
};

const buttonText = z.string().check(z.trim(), z.maxLength(200, "A button's text must be at most 200 characters"));

export const contentFormSchema = z.object({
  title: z.string().check(z.trim(), z.maxLength(500, "Title must be at most 500 characters")),
  subtitle: z.string().check(z.trim(), z.maxLength(1000, "Subtitle must be at most 1,000 characters")),
  description: z.string().check(z.trim(), z.maxLength(20_000, "Description must be at most 20,000 characters")),
  primarybuttontext: buttonText,
  secondarybuttontext: buttonText,
  imageurl: z.string().check(
    z.trim(),
    z.maxLength(2000, "This address is too long"),
    z.refine(
      (url) => url === "" || /^(https?:\/\/|\/(?!\/))\S+$/.test(url),
      "Enter an address that begins with https://",
    ),
  ),
  htmlcontent: z.string().check(z.maxLength(200_000, "This HTML is too long")),
  visible: z.boolean(),
  hide_for_subscribed: z.boolean(),
});
export type ContentValues = z.infer<typeof contentFormSchema>;
