import { queryOptions } from "@tanstack/react-query";
import { fieldsOf, textOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";
import { safeUrl } from "@/lib/safe-url";

const sizes = ["regular", "small", "favicon"] as const;
export type LogoSize = (typeof sizes)[number];

/** The drawing that the app brings along; a row that names it asks for nothing else. */
export const bundledLogo = "/favicon.svg";

export const logoKey = ["brand", "logo"] as const;

/** Addresses of the logos that administrators uploaded, by size. */
export const logoQuery = () =>
  queryOptions({
    queryKey: logoKey,
    queryFn: async ({ signal }) => {
      const rows = await publicRows("brand_assets?select=asset_size,asset_url&asset_type=eq.logo", signal);
      const urls: Partial<Record<LogoSize, string>> = {};
      for (const row of rows) {
        const fields = fieldsOf(row);
        const size = sizes.find((name) => name === fields.get("asset_size"));
        const url = safeUrl(textOf(fields, "asset_url"));
        if (size && url && url !== bundledLogo) urls[size] = url;
      }
      return urls;
    },
    staleTime: 60_000,
    retry: 1,
  });
