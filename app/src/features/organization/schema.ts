import * as z from "zod/mini";
import type { Organization } from "./queries";

export const organizationLimits = { name: 200, ein: 50, text: 20_000 };

const text = z.string().check(z.maxLength(organizationLimits.text, "This text is too long"));

export const organizationSchema = z.object({
  name: z
    .string()
    .check(z.trim(), z.maxLength(organizationLimits.name, `At most ${organizationLimits.name} characters`)),
  ein: z.string().check(z.trim(), z.maxLength(organizationLimits.ein, `At most ${organizationLimits.ein} characters`)),
  mission: text,
  vision: text,
  values: text,
});
export type OrganizationValues = z.infer<typeof organizationSchema>;

export function valuesOf(organization: Organization | null): OrganizationValues {
  return {
    name: organization?.name ?? "",
    ein: organization?.ein ?? "",
    mission: organization?.mission ?? "",
    vision: organization?.vision ?? "",
    values: organization?.values ?? "",
  };
}
