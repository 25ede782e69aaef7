/** Lint rules of the extension: typescript-eslint's strict rules with exceptions for the code's style. */
import js from "@eslint/js";
import { defineConfig } from "eslint/config";
import ts from "typescript-eslint";

export default defineConfig(
  { ignores: ["dist/**", "src/protocol.ts"] },
  js.configs.recommended,
  ts.configs.strictTypeChecked,
  ts.configs.stylisticTypeChecked,
  {
    languageOptions: {
      parserOptions: { project: ["./tsconfig.json", "./tsconfig.webview.json", "./tsconfig.webview-tests.json"] },
    },
    rules: {
      // Allow `() => this.draw()`, regardless of its return type.
      "@typescript-eslint/no-confusing-void-expression": [
        "error",
        { ignoreArrowShorthand: true, ignoreVoidReturningFunctions: true },
      ],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_", ignoreRestSiblings: true }],
      "@typescript-eslint/dot-notation": ["error", { allowIndexSignaturePropertyAccess: true }],
      "@typescript-eslint/no-empty-function": "off",
      // An empty string counts as missing.
      "@typescript-eslint/prefer-nullish-coalescing": ["error", { ignorePrimitives: { string: true } }],
      // Strings are cut between code points.
      "@typescript-eslint/no-misused-spread": "off",
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", name: ["test", "suite"], package: "node:test" }] },
      ],
    },
  },
  {
    files: ["**/*.mjs"],
    extends: [ts.configs.disableTypeChecked],
    languageOptions: { globals: { process: "readonly" } },
  },
);
