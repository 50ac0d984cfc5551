// Written by build.mjs: renew_thread.ts and all that it needs, as one script.
declare module "mainspring:renew_thread" {
  const source: string;
  export default source;
}
