import { queryOptions } from "@tanstack/react-query";
import { fieldsOf, textOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";

/** What administrators say in one section of the public pages; null where the app's own words stand. */
export interface Content {
  title: string | null;
  subtitle: string | null;
  description: string | null;
  primarybuttontext: string | null;
  secondarybuttontext: string | null;
  imageurl: string | null;
  visible: boolean;
  hide_for_subscribed: boolean;
  htmlcontent: string | null;
}
export type Section = "hero" | "features" | "nonprofits" | "pricing" | "footer";
export type ContentBySection = Partial<Record<Section, Content>>;

const sections: Section[] = ["hero", "features", "nonprofits", "pricing", "footer"];

export const marketingKey = ["marketing"] as const;

/** All sections by one request. What is missing, or of another shape, leaves the app's own words. */
export const marketingQuery = () =>
  queryOptions({
    queryKey: marketingKey,
    queryFn: async ({ signal }) => {
      const { data: rows } = await (await publicRows())
        .from("marketing_content")
        .select("*")
        .in("section", sections)
        .abortSignal(signal)
        .throwOnError();
      const found: ContentBySection = {};
      for (const row of rows) {
        const fields = fieldsOf(row);
        const section = sections.find((name) => name === fields.get("section"));
        if (!section) continue;
        found[section] = {
          title: textOf(fields, "title"),
          subtitle: textOf(fields, "subtitle"),
          description: textOf(fields, "description"),
          primarybuttontext: textOf(fields, "primarybuttontext"),
          secondarybuttontext: textOf(fields, "secondarybuttontext"),
          imageurl: textOf(fields, "imageurl"),
          visible: fields.get("visible") !== false,
          hide_for_subscribed: fields.get("hide_for_subscribed") === true,
          htmlcontent: textOf(fields, "htmlcontent"),
        };
      }
      return found;
    },
    staleTime: 60_000,
    retry: 1,
  });
