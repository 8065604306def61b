// Without a root, Next.js looks for one by the locks in the folders above.
export default { turbopack: { root: `${import.meta.dirname}/..` } }
