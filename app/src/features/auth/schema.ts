import * as z from "zod/mini";

const email = z.email("Please enter a valid email address");
const password = z.string().check(z.minLength(6, "Password must be at least 6 characters"));

export const loginSchema = z.object({
  email,
  password,
  rememberMe: z.boolean(),
});
export type LoginValues = z.infer<typeof loginSchema>;

export const signUpSchema = z.object({
  organization: z.string().check(z.trim(), z.minLength(2, "Organization name is required")),
  email,
  password,
  terms: z.boolean().check(z.refine((agreed) => agreed, "You must agree to the terms and privacy policy")),
});
export type SignUpValues = z.infer<typeof signUpSchema>;

export const forgotPasswordSchema = z.object({ email });
export type ForgotPasswordValues = z.infer<typeof forgotPasswordSchema>;

export const resetPasswordSchema = z.object({ password, confirmPassword: password }).check(
  z.refine(({ password, confirmPassword }) => password === confirmPassword, {
    path: ["confirmPassword"],
    error: "Passwords do not match",
  }),
);
export type ResetPasswordValues = z.infer<typeof resetPasswordSchema>;
