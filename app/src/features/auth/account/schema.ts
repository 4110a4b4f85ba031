import * as z from "zod/mini";

export const profileSchema = z.object({
  name: z.string().check(z.trim(), z.maxLength(100, "At most 100 characters")),
  organization: z
    .string()
    .check(z.trim(), z.minLength(2, "Organization name is required"), z.maxLength(200, "At most 200 characters")),
});
export type ProfileValues = z.infer<typeof profileSchema>;

export const emailSchema = z.object({ email: z.email("Please enter a valid email address") });
