import { queryOptions } from "@tanstack/react-query";
import { fieldsOf, textOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";
import { safeUrl } from "@/lib/safe-url";

export type LogoSize = "regular" | "small" | "favicon";

/** The drawing that the app brings along; a row that names it asks for nothing else. */
export const bundledLogo = "/favicon.svg";

export const logoKey = ["brand", "logo"] as const;

/** Address of the logo that administrators uploaded for this size; null where the app's own stands. */
export const logoQuery = (size: LogoSize) =>
  queryOptions({
    queryKey: [...logoKey, size] as const,
    queryFn: async ({ signal }) => {
      const { data } = await (await publicRows())
        .from("brand_assets")
        .select("asset_url")
        .eq("asset_type", "logo")
        .eq("asset_size", size)
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      const url = safeUrl(textOf(fieldsOf(data), "asset_url"));
      return url === bundledLogo ? null : url;
    },
    staleTime: 60_000,
    retry: 1,
  });
