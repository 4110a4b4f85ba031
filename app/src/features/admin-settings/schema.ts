import * as z from "zod/mini";

export const limits = { name: 200, address: 500, email: 254 };

const notEmail = "Must be a valid email address";

/** All may be empty: the terms and the privacy policy then state that the operator has not published them. */
export const operatorSchema = z.object({
  name: z.string().check(z.trim(), z.maxLength(limits.name, "Name must be at most 200 characters")),
  address: z.string().check(z.trim(), z.maxLength(limits.address, "Address must be at most 500 characters")),
  email: z.string().check(
    z.trim(),
    z.maxLength(limits.email, notEmail),
    z.refine((email) => email === "" || z.email().safeParse(email).success, notEmail),
  ),
});
export type Operator = z.infer<typeof operatorSchema>;
