import { queryOptions } from "@tanstack/react-query";
import { fieldsOf, textOf } from "@/lib/fields";
import { publicRows } from "@/lib/public-rows";

/** Who runs the site. Every part is null until an administrator sets it. */
export const operatorQuery = () =>
  queryOptions({
    queryKey: ["site-operator"] as const,
    queryFn: async ({ signal }) => {
      const { data } = await (await publicRows())
        .rpc("get_site_operator", undefined, { get: true })
        .abortSignal(signal)
        .maybeSingle()
        .throwOnError();
      const fields = fieldsOf(data);
      return { name: textOf(fields, "name"), address: textOf(fields, "address"), email: textOf(fields, "email") };
    },
    staleTime: 60_000,
    retry: 1,
  });
