// The operation of the page that brings an adapter into another family.
export const adapterConversion = 'adapter-convert';
