// demo/src/api.ts
async function ask(path, body) {
  let init = body ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {}, response = await fetch(path, init), answer = await response.json().catch(() => {
  });
  if (response.ok && answer) return answer;
  let { message = response.statusText, trace_id: trace } = answer?.error ?? {};
  throw new Error(`${path}: ${response.status} ${message}${trace ? ` (trace ${trace})` : ""}`);
}
async function token(user) {
  return (await ask(`/demo/token?user=${encodeURIComponent(user)}`)).token;
}
async function ensureP2p(a, b) {
  return (await ask("/demo/p2p", { users: [a, b] })).conversation;
}
async function ensureGroup(name, members) {
  return (await ask("/demo/group", { name, members })).conversation;
}

// demo/src/dom.ts
function el(name, props = {}, ...children) {
  let { class: className, data, aria, ...rest } = props, element = document.createElement(name);
  className && (element.className = className), Object.assign(element, rest), Object.assign(element.dataset, data);
  for (let [key, value] of Object.entries(aria ?? {})) element.setAttribute(key === "role" ? key : `aria-${key}`, value);
  return element.append(...children), element;
}
var PATHS = {
  clock: "M8 4.5V8l2.3 1.6M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  tick: "M3.5 8.5l3 3 6-7",
  ticks: "M1 8.6l3 3 6-7M7.4 10.9l.9.7 6-7",
  alert: "M8 4.8v4M8 11.2v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  question: "M6.2 6.3a1.9 1.9 0 1 1 2.6 1.8c-.6.3-.8.6-.8 1.2M8 11.3v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12z",
  send: "M2.5 8L13.5 2.8 9.8 13.4 7.6 8.9 2.5 8zM7.6 8.9l2.3-2.3",
  down: "M8 3v9M4 8.5l4 4 4-4",
  theme: "M8 13.5a5.5 5.5 0 1 0 0-11v11zM8 13.5a5.5 5.5 0 0 1 0-11",
  open: "M6.5 3.5h-3v9h9v-3M9 3h4v4M12.8 3.2L7.5 8.5"
};
function icon(name) {
  let ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 16 16"), svg.setAttribute("aria-hidden", "true"), svg.classList.add("icon");
  let path = document.createElementNS(ns, "path");
  return path.setAttribute("d", PATHS[name]), svg.append(path), svg;
}
function hue(name) {
  return [...name].reduce((sum, char) => (sum * 31 + (char.codePointAt(0) ?? 0)) % 360, 7);
}
function avatar(name) {
  let element = el("span", { class: "avatar", aria: { hidden: "true" } }, (name[0] ?? "?").toUpperCase());
  return element.style.setProperty("--hue", String(hue(name))), element;
}

// typescript/src/backoff.ts
var RECONNECT_STEPS_MS = [0, 1e3, 2e3, 4e3, 8e3, 16e3, 3e4], PUBLISH_FIRST_MS = 100, PUBLISH_MAX_MS = 3e3;
function jitter(ms, random) {
  return Math.round(ms * (0.8 + 0.4 * random()));
}
function reconnectDelayMs(attempt, random = Math.random) {
  return jitter(RECONNECT_STEPS_MS[Math.min(attempt, RECONNECT_STEPS_MS.length - 1)] ?? 0, random);
}
function publishDelayMs(refusals, retryAfterMs, random = Math.random) {
  let own = Math.min(PUBLISH_MAX_MS, PUBLISH_FIRST_MS * 2 ** Math.min(Math.max(refusals - 1, 0), 10));
  return retryAfterMs <= 0 ? jitter(own, random) : Math.max(PUBLISH_FIRST_MS, retryAfterMs + Math.round(0.2 * retryAfterMs * random()));
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/is-message.js
function isMessage(arg, schema) {
  return arg !== null && typeof arg == "object" && "$typeName" in arg && typeof arg.$typeName == "string" ? schema === void 0 ? !0 : schema.typeName === arg.$typeName : !1;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/descriptors.js
var ScalarType;
(function(ScalarType2) {
  ScalarType2[ScalarType2.DOUBLE = 1] = "DOUBLE", ScalarType2[ScalarType2.FLOAT = 2] = "FLOAT", ScalarType2[ScalarType2.INT64 = 3] = "INT64", ScalarType2[ScalarType2.UINT64 = 4] = "UINT64", ScalarType2[ScalarType2.INT32 = 5] = "INT32", ScalarType2[ScalarType2.FIXED64 = 6] = "FIXED64", ScalarType2[ScalarType2.FIXED32 = 7] = "FIXED32", ScalarType2[ScalarType2.BOOL = 8] = "BOOL", ScalarType2[ScalarType2.STRING = 9] = "STRING", ScalarType2[ScalarType2.BYTES = 12] = "BYTES", ScalarType2[ScalarType2.UINT32 = 13] = "UINT32", ScalarType2[ScalarType2.SFIXED32 = 15] = "SFIXED32", ScalarType2[ScalarType2.SFIXED64 = 16] = "SFIXED64", ScalarType2[ScalarType2.SINT32 = 17] = "SINT32", ScalarType2[ScalarType2.SINT64 = 18] = "SINT64";
})(ScalarType || (ScalarType = {}));

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wire/varint.js
function varint64read() {
  let lowBits = 0, highBits = 0;
  for (let shift = 0; shift < 28; shift += 7) {
    let b = this.buf[this.pos++];
    if (lowBits |= (b & 127) << shift, (b & 128) == 0)
      return this.assertBounds(), [lowBits, highBits];
  }
  let middleByte = this.buf[this.pos++];
  if (lowBits |= (middleByte & 15) << 28, highBits = (middleByte & 112) >> 4, (middleByte & 128) == 0)
    return this.assertBounds(), [lowBits, highBits];
  for (let shift = 3; shift <= 31; shift += 7) {
    let b = this.buf[this.pos++];
    if (highBits |= (b & 127) << shift, (b & 128) == 0)
      return this.assertBounds(), [lowBits, highBits];
  }
  throw new Error("invalid varint");
}
function varint64write(lo, hi, bytes) {
  for (let i = 0; i < 28; i = i + 7) {
    let shift = lo >>> i, hasNext = !(!(shift >>> 7) && hi == 0), byte = (hasNext ? shift | 128 : shift) & 255;
    if (bytes.push(byte), !hasNext)
      return;
  }
  let splitBits = lo >>> 28 & 15 | (hi & 7) << 4, hasMoreBits = hi >> 3 != 0;
  if (bytes.push((hasMoreBits ? splitBits | 128 : splitBits) & 255), !!hasMoreBits) {
    for (let i = 3; i < 31; i = i + 7) {
      let shift = hi >>> i, hasNext = !!(shift >>> 7), byte = (hasNext ? shift | 128 : shift) & 255;
      if (bytes.push(byte), !hasNext)
        return;
    }
    bytes.push(hi >>> 31 & 1);
  }
}
var TWO_PWR_32_DBL = 4294967296;
function int64FromString(dec) {
  let minus = dec[0] === "-";
  minus && (dec = dec.slice(1));
  let base = 1e6, lowBits = 0, highBits = 0;
  function add1e6digit(begin, end) {
    let digit1e6 = Number(dec.slice(begin, end));
    highBits *= base, lowBits = lowBits * base + digit1e6, lowBits >= TWO_PWR_32_DBL && (highBits = highBits + (lowBits / TWO_PWR_32_DBL | 0), lowBits = lowBits % TWO_PWR_32_DBL);
  }
  return add1e6digit(-24, -18), add1e6digit(-18, -12), add1e6digit(-12, -6), add1e6digit(-6), minus ? negate(lowBits, highBits) : newBits(lowBits, highBits);
}
function int64ToString(lo, hi) {
  let bits = newBits(lo, hi), negative = bits.hi & 2147483648;
  negative && (bits = negate(bits.lo, bits.hi));
  let result = uInt64ToString(bits.lo, bits.hi);
  return negative ? "-" + result : result;
}
function uInt64ToString(lo, hi) {
  if ({ lo, hi } = toUnsigned(lo, hi), hi <= 2097151)
    return String(TWO_PWR_32_DBL * hi + lo);
  let low = lo & 16777215, mid = (lo >>> 24 | hi << 8) & 16777215, high = hi >> 16 & 65535, digitA = low + mid * 6777216 + high * 6710656, digitB = mid + high * 8147497, digitC = high * 2, base = 1e7;
  return digitA >= base && (digitB += Math.floor(digitA / base), digitA %= base), digitB >= base && (digitC += Math.floor(digitB / base), digitB %= base), digitC.toString() + decimalFrom1e7WithLeadingZeros(digitB) + decimalFrom1e7WithLeadingZeros(digitA);
}
function toUnsigned(lo, hi) {
  return { lo: lo >>> 0, hi: hi >>> 0 };
}
function newBits(lo, hi) {
  return { lo: lo | 0, hi: hi | 0 };
}
function negate(lowBits, highBits) {
  return highBits = ~highBits, lowBits ? lowBits = ~lowBits + 1 : highBits += 1, newBits(lowBits, highBits);
}
var decimalFrom1e7WithLeadingZeros = (digit1e7) => {
  let partial = String(digit1e7);
  return "0000000".slice(partial.length) + partial;
};
function varint32write(value, bytes) {
  if (value >= 0) {
    for (; value > 127; )
      bytes.push(value & 127 | 128), value = value >>> 7;
    bytes.push(value);
  } else {
    for (let i = 0; i < 9; i++)
      bytes.push(value & 127 | 128), value = value >> 7;
    bytes.push(1);
  }
}
function varint32read() {
  let b = this.buf[this.pos++], result = b & 127;
  if ((b & 128) == 0)
    return this.assertBounds(), result;
  if (b = this.buf[this.pos++], result |= (b & 127) << 7, (b & 128) == 0)
    return this.assertBounds(), result;
  if (b = this.buf[this.pos++], result |= (b & 127) << 14, (b & 128) == 0)
    return this.assertBounds(), result;
  if (b = this.buf[this.pos++], result |= (b & 127) << 21, (b & 128) == 0)
    return this.assertBounds(), result;
  b = this.buf[this.pos++], result |= (b & 15) << 28;
  for (let readBytes = 5; (b & 128) !== 0 && readBytes < 10; readBytes++)
    b = this.buf[this.pos++];
  if ((b & 128) != 0)
    throw new Error("invalid varint");
  return this.assertBounds(), result >>> 0;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/proto-int64.js
var protoInt64 = /* @__PURE__ */ makeInt64Support();
function makeInt64Support() {
  let dv = new DataView(new ArrayBuffer(8));
  if (typeof BigInt == "function" && typeof dv.getBigInt64 == "function" && typeof dv.getBigUint64 == "function" && typeof dv.setBigInt64 == "function" && typeof dv.setBigUint64 == "function" && (!!globalThis.Deno || typeof process != "object" || typeof process.env != "object" || process.env.BUF_BIGINT_DISABLE !== "1")) {
    let MIN = BigInt("-9223372036854775808"), MAX = BigInt("9223372036854775807"), UMIN = BigInt("0"), UMAX = BigInt("18446744073709551615");
    return {
      zero: BigInt(0),
      supported: !0,
      parse(value) {
        let bi = typeof value == "bigint" ? value : BigInt(value);
        if (bi > MAX || bi < MIN)
          throw new Error(`invalid int64: ${value}`);
        return bi;
      },
      uParse(value) {
        let bi = typeof value == "bigint" ? value : BigInt(value);
        if (bi > UMAX || bi < UMIN)
          throw new Error(`invalid uint64: ${value}`);
        return bi;
      },
      enc(value) {
        return dv.setBigInt64(0, this.parse(value), !0), {
          lo: dv.getInt32(0, !0),
          hi: dv.getInt32(4, !0)
        };
      },
      uEnc(value) {
        return dv.setBigInt64(0, this.uParse(value), !0), {
          lo: dv.getInt32(0, !0),
          hi: dv.getInt32(4, !0)
        };
      },
      dec(lo, hi) {
        return dv.setInt32(0, lo, !0), dv.setInt32(4, hi, !0), dv.getBigInt64(0, !0);
      },
      uDec(lo, hi) {
        return dv.setInt32(0, lo, !0), dv.setInt32(4, hi, !0), dv.getBigUint64(0, !0);
      }
    };
  }
  return {
    zero: "0",
    supported: !1,
    parse(value) {
      return typeof value != "string" && (value = value.toString()), assertInt64String(value), value;
    },
    uParse(value) {
      return typeof value != "string" && (value = value.toString()), assertUInt64String(value), value;
    },
    enc(value) {
      return typeof value != "string" && (value = value.toString()), assertInt64String(value), int64FromString(value);
    },
    uEnc(value) {
      return typeof value != "string" && (value = value.toString()), assertUInt64String(value), int64FromString(value);
    },
    dec(lo, hi) {
      return int64ToString(lo, hi);
    },
    uDec(lo, hi) {
      return uInt64ToString(lo, hi);
    }
  };
}
function assertInt64String(value) {
  if (!/^-?[0-9]+$/.test(value))
    throw new Error("invalid int64: " + value);
}
function assertUInt64String(value) {
  if (!/^[0-9]+$/.test(value))
    throw new Error("invalid uint64: " + value);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/scalar.js
function scalarZeroValue(type, longAsString) {
  switch (type) {
    case ScalarType.STRING:
      return "";
    case ScalarType.BOOL:
      return !1;
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      return 0;
    case ScalarType.INT64:
    case ScalarType.UINT64:
    case ScalarType.SFIXED64:
    case ScalarType.FIXED64:
    case ScalarType.SINT64:
      return longAsString ? "0" : protoInt64.zero;
    case ScalarType.BYTES:
      return new Uint8Array(0);
    default:
      return 0;
  }
}
function isScalarZeroValue(type, value) {
  switch (type) {
    case ScalarType.BOOL:
      return value === !1;
    case ScalarType.STRING:
      return value === "";
    case ScalarType.BYTES:
      return value instanceof Uint8Array && !value.byteLength;
    default:
      return value == 0;
  }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/unsafe.js
var IMPLICIT = 2, unsafeLocal = /* @__PURE__ */ Symbol.for("reflect unsafe local");
function unsafeOneofCase(target, oneof) {
  let c = target[oneof.localName].case;
  return c === void 0 ? c : oneof.fields.find((f) => f.localName === c);
}
function unsafeIsSet(target, field) {
  let name = field.localName;
  if (field.oneof)
    return target[field.oneof.localName].case === name;
  if (field.presence != IMPLICIT)
    return target[name] !== void 0 && Object.prototype.hasOwnProperty.call(target, name);
  switch (field.fieldKind) {
    case "list":
      return target[name].length > 0;
    case "map":
      return Object.keys(target[name]).length > 0;
    case "scalar":
      return !isScalarZeroValue(field.scalar, target[name]);
    case "enum":
      return target[name] !== field.enum.values[0].number;
  }
  throw new Error("message field with implicit presence");
}
function unsafeIsSetExplicit(target, localName) {
  return Object.prototype.hasOwnProperty.call(target, localName) && target[localName] !== void 0;
}
function unsafeGet(target, field) {
  if (field.oneof) {
    let oneof = target[field.oneof.localName];
    return oneof.case === field.localName ? oneof.value : void 0;
  }
  return target[field.localName];
}
function unsafeSet(target, field, value) {
  field.oneof ? target[field.oneof.localName] = {
    case: field.localName,
    value
  } : target[field.localName] = value;
}
function unsafeClear(target, field) {
  let name = field.localName;
  if (field.oneof) {
    let oneofLocalName = field.oneof.localName;
    target[oneofLocalName].case === name && (target[oneofLocalName] = { case: void 0 });
  } else if (field.presence != IMPLICIT)
    delete target[name];
  else
    switch (field.fieldKind) {
      case "map":
        target[name] = {};
        break;
      case "list":
        target[name] = [];
        break;
      case "enum":
        target[name] = field.enum.values[0].number;
        break;
      case "scalar":
        target[name] = scalarZeroValue(field.scalar, field.longAsString);
        break;
    }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/guard.js
function isObject(arg) {
  return arg !== null && typeof arg == "object" && !Array.isArray(arg);
}
function isReflectList(arg, field) {
  var _a, _b, _c, _d;
  if (isObject(arg) && unsafeLocal in arg && "add" in arg && "field" in arg && typeof arg.field == "function") {
    if (field !== void 0) {
      let a = field, b = arg.field();
      return a.listKind == b.listKind && a.scalar === b.scalar && ((_a = a.message) === null || _a === void 0 ? void 0 : _a.typeName) === ((_b = b.message) === null || _b === void 0 ? void 0 : _b.typeName) && ((_c = a.enum) === null || _c === void 0 ? void 0 : _c.typeName) === ((_d = b.enum) === null || _d === void 0 ? void 0 : _d.typeName);
    }
    return !0;
  }
  return !1;
}
function isReflectMap(arg, field) {
  var _a, _b, _c, _d;
  if (isObject(arg) && unsafeLocal in arg && "has" in arg && "field" in arg && typeof arg.field == "function") {
    if (field !== void 0) {
      let a = field, b = arg.field();
      return a.mapKey === b.mapKey && a.mapKind == b.mapKind && a.scalar === b.scalar && ((_a = a.message) === null || _a === void 0 ? void 0 : _a.typeName) === ((_b = b.message) === null || _b === void 0 ? void 0 : _b.typeName) && ((_c = a.enum) === null || _c === void 0 ? void 0 : _c.typeName) === ((_d = b.enum) === null || _d === void 0 ? void 0 : _d.typeName);
    }
    return !0;
  }
  return !1;
}
function isReflectMessage(arg, messageDesc2) {
  return isObject(arg) && unsafeLocal in arg && "desc" in arg && isObject(arg.desc) && arg.desc.kind === "message" && (messageDesc2 === void 0 || arg.desc.typeName == messageDesc2.typeName);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wkt/wrappers.js
function isWrapper(arg) {
  return isWrapperTypeName(arg.$typeName);
}
function isWrapperDesc(messageDesc2) {
  let f = messageDesc2.fields[0];
  return isWrapperTypeName(messageDesc2.typeName) && f !== void 0 && f.fieldKind == "scalar" && f.name == "value" && f.number == 1;
}
function hasCustomJsonRepresentation(desc) {
  switch (desc.typeName) {
    case "google.protobuf.Any":
    case "google.protobuf.Timestamp":
    case "google.protobuf.Duration":
    case "google.protobuf.FieldMask":
    case "google.protobuf.Struct":
    case "google.protobuf.Value":
    case "google.protobuf.ListValue":
      return !0;
    default:
      return isWrapperDesc(desc);
  }
}
function isWrapperTypeName(name) {
  return name.startsWith("google.protobuf.") && [
    "DoubleValue",
    "FloatValue",
    "Int64Value",
    "UInt64Value",
    "Int32Value",
    "UInt32Value",
    "BoolValue",
    "StringValue",
    "BytesValue"
  ].includes(name.substring(16));
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/create.js
var EDITION_PROTO3 = 999, EDITION_PROTO2 = 998, IMPLICIT2 = 2;
function create(schema, init) {
  if (isMessage(init, schema))
    return init;
  let message = createZeroMessage(schema);
  return init !== void 0 && initMessage(schema, message, init), message;
}
function initMessage(messageDesc2, message, init) {
  for (let member of messageDesc2.members) {
    let value = init[member.localName];
    if (value == null)
      continue;
    let field;
    if (member.kind == "oneof") {
      let oneofField = unsafeOneofCase(init, member);
      if (!oneofField)
        continue;
      field = oneofField, value = unsafeGet(init, oneofField);
    } else
      field = member;
    switch (field.fieldKind) {
      case "message":
        value = toMessage(field, value);
        break;
      case "scalar":
        value = initScalar(field, value);
        break;
      case "list":
        value = initList(field, value);
        break;
      case "map":
        value = initMap(field, value);
        break;
    }
    unsafeSet(message, field, value);
  }
  return message;
}
function initScalar(field, value) {
  return field.scalar == ScalarType.BYTES ? toU8Arr(value) : value;
}
function initMap(field, value) {
  if (isObject(value)) {
    if (field.scalar == ScalarType.BYTES)
      return convertObjectValues(value, toU8Arr);
    if (field.mapKind == "message")
      return convertObjectValues(value, (val) => toMessage(field, val));
  }
  return value;
}
function initList(field, value) {
  if (Array.isArray(value)) {
    if (field.scalar == ScalarType.BYTES)
      return value.map(toU8Arr);
    if (field.listKind == "message")
      return value.map((item) => toMessage(field, item));
  }
  return value;
}
function toMessage(field, value) {
  if (field.fieldKind == "message" && !field.oneof && isWrapperDesc(field.message))
    return initScalar(field.message.fields[0], value);
  if (isObject(value)) {
    if (field.message.typeName == "google.protobuf.Struct" && field.parent.typeName !== "google.protobuf.Value")
      return value;
    if (!isMessage(value, field.message))
      return create(field.message, value);
  }
  return value;
}
function toU8Arr(value) {
  return Array.isArray(value) ? new Uint8Array(value) : value;
}
function convertObjectValues(obj, fn) {
  let ret = {};
  for (let entry of Object.entries(obj))
    ret[entry[0]] = fn(entry[1]);
  return ret;
}
var tokenZeroMessageField = /* @__PURE__ */ Symbol(), messagePrototypes = /* @__PURE__ */ new WeakMap();
function createZeroMessage(desc) {
  let msg;
  if (needsPrototypeChain(desc)) {
    let cached = messagePrototypes.get(desc), prototype, members;
    if (cached)
      ({ prototype, members } = cached);
    else {
      prototype = {}, members = /* @__PURE__ */ new Set();
      for (let member of desc.members)
        member.kind != "oneof" && (member.fieldKind != "scalar" && member.fieldKind != "enum" || member.presence != IMPLICIT2 && (members.add(member), prototype[member.localName] = createZeroField(member)));
      messagePrototypes.set(desc, { prototype, members });
    }
    msg = Object.create(prototype), msg.$typeName = desc.typeName;
    for (let member of desc.members)
      members.has(member) || member.kind == "field" && (member.fieldKind == "message" || (member.fieldKind == "scalar" || member.fieldKind == "enum") && member.presence != IMPLICIT2) || (msg[member.localName] = createZeroField(member));
  } else {
    msg = {
      $typeName: desc.typeName
    };
    for (let member of desc.members)
      (member.kind == "oneof" || member.presence == IMPLICIT2) && (msg[member.localName] = createZeroField(member));
  }
  return msg;
}
function needsPrototypeChain(desc) {
  switch (desc.file.edition) {
    case EDITION_PROTO3:
      return !1;
    case EDITION_PROTO2:
      return !0;
    default:
      return desc.fields.some((f) => f.presence != IMPLICIT2 && f.fieldKind != "message" && !f.oneof);
  }
}
function createZeroField(field) {
  if (field.kind == "oneof")
    return { case: void 0 };
  if (field.fieldKind == "list")
    return [];
  if (field.fieldKind == "map")
    return {};
  if (field.fieldKind == "message")
    return tokenZeroMessageField;
  let defaultValue = field.getDefaultValue();
  return defaultValue !== void 0 ? field.fieldKind == "scalar" && field.longAsString ? defaultValue.toString() : defaultValue : field.fieldKind == "scalar" ? scalarZeroValue(field.scalar, field.longAsString) : field.enum.values[0].number;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/error.js
var errorNames = [
  "FieldValueInvalidError",
  "FieldListRangeError",
  "ForeignFieldError"
], FieldError = class extends Error {
  constructor(fieldOrOneof, message, name = "FieldValueInvalidError") {
    super(message), this.name = name, this.field = () => fieldOrOneof;
  }
};
function isFieldError(arg) {
  return arg instanceof Error && errorNames.includes(arg.name) && "field" in arg && typeof arg.field == "function";
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wire/text-encoding.js
var symbol = /* @__PURE__ */ Symbol.for("@bufbuild/protobuf/text-encoding");
function getTextEncoding() {
  if (globalThis[symbol] == null) {
    let te = new globalThis.TextEncoder(), td = new globalThis.TextDecoder(), tdStrict;
    globalThis[symbol] = {
      encodeUtf8(text2) {
        return te.encode(text2);
      },
      decodeUtf8(bytes, strict) {
        return strict ? (tdStrict === void 0 && (tdStrict = new globalThis.TextDecoder("utf-8", { fatal: !0 })), tdStrict.decode(bytes)) : td.decode(bytes);
      },
      checkUtf8(text2) {
        try {
          return encodeURIComponent(text2), !0;
        } catch {
          return !1;
        }
      }
    };
  }
  return globalThis[symbol];
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wire/binary-encoding.js
var WireType;
(function(WireType2) {
  WireType2[WireType2.Varint = 0] = "Varint", WireType2[WireType2.Bit64 = 1] = "Bit64", WireType2[WireType2.LengthDelimited = 2] = "LengthDelimited", WireType2[WireType2.StartGroup = 3] = "StartGroup", WireType2[WireType2.EndGroup = 4] = "EndGroup", WireType2[WireType2.Bit32 = 5] = "Bit32";
})(WireType || (WireType = {}));
var FLOAT32_MAX = 34028234663852886e22, FLOAT32_MIN = -34028234663852886e22, UINT32_MAX = 4294967295, INT32_MAX = 2147483647, INT32_MIN = -2147483648, BinaryWriter = class {
  constructor(encodeUtf8 = getTextEncoding().encodeUtf8) {
    this.encodeUtf8 = encodeUtf8, this.stack = [], this.chunks = [], this.buf = [];
  }
  /**
   * Return all bytes written and reset this writer.
   */
  finish() {
    this.buf.length && (this.chunks.push(new Uint8Array(this.buf)), this.buf = []);
    let len = 0;
    for (let i = 0; i < this.chunks.length; i++)
      len += this.chunks[i].length;
    let bytes = new Uint8Array(len), offset = 0;
    for (let i = 0; i < this.chunks.length; i++)
      bytes.set(this.chunks[i], offset), offset += this.chunks[i].length;
    return this.chunks = [], bytes;
  }
  /**
   * Start a new fork for length-delimited data like a message
   * or a packed repeated field.
   *
   * Must be joined later with `join()`.
   */
  fork() {
    return this.stack.push({ chunks: this.chunks, buf: this.buf }), this.chunks = [], this.buf = [], this;
  }
  /**
   * Join the last fork. Write its length and bytes, then
   * return to the previous state.
   */
  join() {
    let chunk = this.finish(), prev = this.stack.pop();
    if (!prev)
      throw new Error("invalid state, fork stack empty");
    return this.chunks = prev.chunks, this.buf = prev.buf, this.uint32(chunk.byteLength), this.raw(chunk);
  }
  /**
   * Writes a tag (field number and wire type).
   *
   * Equivalent to `uint32( (fieldNo << 3 | type) >>> 0 )`.
   *
   * Generated code should compute the tag ahead of time and call `uint32()`.
   */
  tag(fieldNo, type) {
    return this.uint32((fieldNo << 3 | type) >>> 0);
  }
  /**
   * Write a chunk of raw bytes.
   */
  raw(chunk) {
    return this.buf.length && (this.chunks.push(new Uint8Array(this.buf)), this.buf = []), this.chunks.push(chunk), this;
  }
  /**
   * Write a `uint32` value, an unsigned 32 bit varint.
   */
  uint32(value) {
    for (assertUInt32(value); value > 127; )
      this.buf.push(value & 127 | 128), value = value >>> 7;
    return this.buf.push(value), this;
  }
  /**
   * Write a `int32` value, a signed 32 bit varint.
   */
  int32(value) {
    return assertInt32(value), varint32write(value, this.buf), this;
  }
  /**
   * Write a `bool` value, a varint.
   */
  bool(value) {
    return this.buf.push(value ? 1 : 0), this;
  }
  /**
   * Write a `bytes` value, length-delimited arbitrary data.
   */
  bytes(value) {
    return this.uint32(value.byteLength), this.raw(value);
  }
  /**
   * Write a `string` value, length-delimited data converted to UTF-8 text.
   */
  string(value) {
    let chunk = this.encodeUtf8(value);
    return this.uint32(chunk.byteLength), this.raw(chunk);
  }
  /**
   * Write a `float` value, 32-bit floating point number.
   */
  float(value) {
    assertFloat32(value);
    let chunk = new Uint8Array(4);
    return new DataView(chunk.buffer).setFloat32(0, value, !0), this.raw(chunk);
  }
  /**
   * Write a `double` value, a 64-bit floating point number.
   */
  double(value) {
    let chunk = new Uint8Array(8);
    return new DataView(chunk.buffer).setFloat64(0, value, !0), this.raw(chunk);
  }
  /**
   * Write a `fixed32` value, an unsigned, fixed-length 32-bit integer.
   */
  fixed32(value) {
    assertUInt32(value);
    let chunk = new Uint8Array(4);
    return new DataView(chunk.buffer).setUint32(0, value, !0), this.raw(chunk);
  }
  /**
   * Write a `sfixed32` value, a signed, fixed-length 32-bit integer.
   */
  sfixed32(value) {
    assertInt32(value);
    let chunk = new Uint8Array(4);
    return new DataView(chunk.buffer).setInt32(0, value, !0), this.raw(chunk);
  }
  /**
   * Write a `sint32` value, a signed, zigzag-encoded 32-bit varint.
   */
  sint32(value) {
    return assertInt32(value), value = (value << 1 ^ value >> 31) >>> 0, varint32write(value, this.buf), this;
  }
  /**
   * Write a `sfixed64` value, a signed, fixed-length 64-bit integer.
   */
  sfixed64(value) {
    let chunk = new Uint8Array(8), view = new DataView(chunk.buffer), tc = protoInt64.enc(value);
    return view.setInt32(0, tc.lo, !0), view.setInt32(4, tc.hi, !0), this.raw(chunk);
  }
  /**
   * Write a `fixed64` value, an unsigned, fixed-length 64 bit integer.
   */
  fixed64(value) {
    let chunk = new Uint8Array(8), view = new DataView(chunk.buffer), tc = protoInt64.uEnc(value);
    return view.setInt32(0, tc.lo, !0), view.setInt32(4, tc.hi, !0), this.raw(chunk);
  }
  /**
   * Write a `int64` value, a signed 64-bit varint.
   */
  int64(value) {
    let tc = protoInt64.enc(value);
    return varint64write(tc.lo, tc.hi, this.buf), this;
  }
  /**
   * Write a `sint64` value, a signed, zig-zag-encoded 64-bit varint.
   */
  sint64(value) {
    let tc = protoInt64.enc(value), sign = tc.hi >> 31, lo = tc.lo << 1 ^ sign, hi = (tc.hi << 1 | tc.lo >>> 31) ^ sign;
    return varint64write(lo, hi, this.buf), this;
  }
  /**
   * Write a `uint64` value, an unsigned 64-bit varint.
   */
  uint64(value) {
    let tc = protoInt64.uEnc(value);
    return varint64write(tc.lo, tc.hi, this.buf), this;
  }
}, BinaryReader = class {
  constructor(buf, decodeUtf8 = getTextEncoding().decodeUtf8) {
    this.decodeUtf8 = decodeUtf8, this.varint64 = varint64read, this.uint32 = varint32read, this.buf = buf, this.len = buf.length, this.pos = 0, this.view = new DataView(buf.buffer, buf.byteOffset, buf.byteLength);
  }
  /**
   * Reads a tag - field number and wire type. Tags are uint32 varints; values
   * that do not fit in uint32 are rejected.
   */
  tag() {
    let start2 = this.pos, tag = this.uint32(), bytesRead = this.pos - start2;
    if (bytesRead > 5 || bytesRead == 5 && this.buf[this.pos - 1] > 15)
      throw new Error("illegal tag: varint overflows uint32");
    let fieldNo = tag >>> 3, wireType = tag & 7;
    if (fieldNo <= 0 || wireType > 5)
      throw new Error("illegal tag: field no " + fieldNo + " wire type " + wireType);
    return [fieldNo, wireType];
  }
  /**
   * Skip one element and return the skipped data.
   *
   * When skipping StartGroup, provide the tags field number to check for
   * matching field number in the EndGroup tag.
   */
  skip(wireType, fieldNo) {
    let start2 = this.pos;
    switch (wireType) {
      case WireType.Varint:
        for (; this.buf[this.pos++] & 128; )
          ;
        break;
      // @ts-ignore TS7029: Fallthrough case in switch -- ignore instead of expect-error for compiler settings without noFallthroughCasesInSwitch: true
      case WireType.Bit64:
        this.pos += 4;
      case WireType.Bit32:
        this.pos += 4;
        break;
      case WireType.LengthDelimited:
        let len = this.uint32();
        this.pos += len;
        break;
      case WireType.StartGroup:
        for (; ; ) {
          let [fn, wt] = this.tag();
          if (wt === WireType.EndGroup) {
            if (fieldNo !== void 0 && fn !== fieldNo)
              throw new Error("invalid end group tag");
            break;
          }
          this.skip(wt, fn);
        }
        break;
      default:
        throw new Error("cant skip wire type " + wireType);
    }
    return this.assertBounds(), this.buf.subarray(start2, this.pos);
  }
  /**
   * Throws error if position in byte array is out of range.
   */
  assertBounds() {
    if (this.pos > this.len)
      throw new RangeError("premature EOF");
  }
  /**
   * Read a `int32` field, a signed 32 bit varint.
   */
  int32() {
    return this.uint32() | 0;
  }
  /**
   * Read a `sint32` field, a signed, zigzag-encoded 32-bit varint.
   */
  sint32() {
    let zze = this.uint32();
    return zze >>> 1 ^ -(zze & 1);
  }
  /**
   * Read a `int64` field, a signed 64-bit varint.
   */
  int64() {
    return protoInt64.dec(...this.varint64());
  }
  /**
   * Read a `uint64` field, an unsigned 64-bit varint.
   */
  uint64() {
    return protoInt64.uDec(...this.varint64());
  }
  /**
   * Read a `sint64` field, a signed, zig-zag-encoded 64-bit varint.
   */
  sint64() {
    let [lo, hi] = this.varint64(), s = -(lo & 1);
    return lo = (lo >>> 1 | (hi & 1) << 31) ^ s, hi = hi >>> 1 ^ s, protoInt64.dec(lo, hi);
  }
  /**
   * Read a `bool` field, a variant.
   */
  bool() {
    let [lo, hi] = this.varint64();
    return lo !== 0 || hi !== 0;
  }
  /**
   * Read a `fixed32` field, an unsigned, fixed-length 32-bit integer.
   */
  fixed32() {
    return this.view.getUint32((this.pos += 4) - 4, !0);
  }
  /**
   * Read a `sfixed32` field, a signed, fixed-length 32-bit integer.
   */
  sfixed32() {
    return this.view.getInt32((this.pos += 4) - 4, !0);
  }
  /**
   * Read a `fixed64` field, an unsigned, fixed-length 64 bit integer.
   */
  fixed64() {
    return protoInt64.uDec(this.sfixed32(), this.sfixed32());
  }
  /**
   * Read a `fixed64` field, a signed, fixed-length 64-bit integer.
   */
  sfixed64() {
    return protoInt64.dec(this.sfixed32(), this.sfixed32());
  }
  /**
   * Read a `float` field, 32-bit floating point number.
   */
  float() {
    return this.view.getFloat32((this.pos += 4) - 4, !0);
  }
  /**
   * Read a `double` field, a 64-bit floating point number.
   */
  double() {
    return this.view.getFloat64((this.pos += 8) - 8, !0);
  }
  /**
   * Read a `bytes` field, length-delimited arbitrary data.
   */
  bytes() {
    let len = this.uint32(), start2 = this.pos;
    return this.pos += len, this.assertBounds(), this.buf.subarray(start2, start2 + len);
  }
  /**
   * Read a `string` field, length-delimited data converted to UTF-8 text. If
   * `strict` is true, throw on invalid UTF-8 instead of substituting U+FFFD.
   */
  string(strict) {
    return this.decodeUtf8(this.bytes(), strict);
  }
};
function assertInt32(arg) {
  if (typeof arg == "string")
    arg = Number(arg);
  else if (typeof arg != "number")
    throw new Error("invalid int32: " + typeof arg);
  if (!Number.isInteger(arg) || arg > INT32_MAX || arg < INT32_MIN)
    throw new Error("invalid int32: " + arg);
}
function assertUInt32(arg) {
  if (typeof arg == "string")
    arg = Number(arg);
  else if (typeof arg != "number")
    throw new Error("invalid uint32: " + typeof arg);
  if (!Number.isInteger(arg) || arg > UINT32_MAX || arg < 0)
    throw new Error("invalid uint32: " + arg);
}
function assertFloat32(arg) {
  if (typeof arg == "string") {
    let o = arg;
    if (arg = Number(arg), Number.isNaN(arg) && o !== "NaN")
      throw new Error("invalid float32: " + o);
  } else if (typeof arg != "number")
    throw new Error("invalid float32: " + typeof arg);
  if (Number.isFinite(arg) && (arg > FLOAT32_MAX || arg < FLOAT32_MIN))
    throw new Error("invalid float32: " + arg);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/reflect-check.js
function checkField(field, value) {
  let check = field.fieldKind == "list" ? isReflectList(value, field) : field.fieldKind == "map" ? isReflectMap(value, field) : checkSingular(field, value);
  if (check === !0)
    return;
  let reason;
  switch (field.fieldKind) {
    case "list":
      reason = `expected ${formatReflectList(field)}, got ${formatVal(value)}`;
      break;
    case "map":
      reason = `expected ${formatReflectMap(field)}, got ${formatVal(value)}`;
      break;
    default:
      reason = reasonSingular(field, value, check);
  }
  return new FieldError(field, reason);
}
function checkListItem(field, index, value) {
  let check = checkSingular(field, value);
  if (check !== !0)
    return new FieldError(field, `list item #${index + 1}: ${reasonSingular(field, value, check)}`);
}
function checkMapEntry(field, key, value) {
  let checkKey = checkScalarValue(key, field.mapKey);
  if (checkKey !== !0)
    return new FieldError(field, `invalid map key: ${reasonSingular({ scalar: field.mapKey }, key, checkKey)}`);
  let checkVal = checkSingular(field, value);
  if (checkVal !== !0)
    return new FieldError(field, `map entry ${formatVal(key)}: ${reasonSingular(field, value, checkVal)}`);
}
function checkSingular(field, value) {
  return field.scalar !== void 0 ? checkScalarValue(value, field.scalar) : field.enum !== void 0 ? field.enum.open ? Number.isInteger(value) : field.enum.values.some((v) => v.number === value) : isReflectMessage(value, field.message);
}
function checkScalarValue(value, scalar) {
  switch (scalar) {
    case ScalarType.DOUBLE:
      return typeof value == "number";
    case ScalarType.FLOAT:
      return typeof value != "number" ? !1 : Number.isNaN(value) || !Number.isFinite(value) ? !0 : value > FLOAT32_MAX || value < FLOAT32_MIN ? `${value.toFixed()} out of range` : !0;
    case ScalarType.INT32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32:
      return typeof value != "number" || !Number.isInteger(value) ? !1 : value > INT32_MAX || value < INT32_MIN ? `${value.toFixed()} out of range` : !0;
    case ScalarType.FIXED32:
    case ScalarType.UINT32:
      return typeof value != "number" || !Number.isInteger(value) ? !1 : value > UINT32_MAX || value < 0 ? `${value.toFixed()} out of range` : !0;
    case ScalarType.BOOL:
      return typeof value == "boolean";
    case ScalarType.STRING:
      return typeof value != "string" ? !1 : getTextEncoding().checkUtf8(value) || "invalid UTF8";
    case ScalarType.BYTES:
      return value instanceof Uint8Array;
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
    case ScalarType.SINT64:
      if (typeof value == "bigint" || typeof value == "number" || typeof value == "string" && value.length > 0)
        try {
          return protoInt64.parse(value), !0;
        } catch {
          return `${value} out of range`;
        }
      return !1;
    case ScalarType.FIXED64:
    case ScalarType.UINT64:
      if (typeof value == "bigint" || typeof value == "number" || typeof value == "string" && value.length > 0)
        try {
          return protoInt64.uParse(value), !0;
        } catch {
          return `${value} out of range`;
        }
      return !1;
  }
}
function reasonSingular(field, val, details) {
  return details = typeof details == "string" ? `: ${details}` : `, got ${formatVal(val)}`, field.scalar !== void 0 ? `expected ${scalarTypeDescription(field.scalar)}` + details : field.enum !== void 0 ? `expected ${field.enum.toString()}` + details : `expected ${formatReflectMessage(field.message)}` + details;
}
function formatVal(val) {
  switch (typeof val) {
    case "object":
      return val === null ? "null" : val instanceof Uint8Array ? `Uint8Array(${val.length})` : Array.isArray(val) ? `Array(${val.length})` : isReflectList(val) ? formatReflectList(val.field()) : isReflectMap(val) ? formatReflectMap(val.field()) : isReflectMessage(val) ? formatReflectMessage(val.desc) : isMessage(val) ? `message ${val.$typeName}` : "object";
    case "string":
      return val.length > 30 ? "string" : `"${val.split('"').join('\\"')}"`;
    case "boolean":
      return String(val);
    case "number":
      return String(val);
    case "bigint":
      return String(val) + "n";
    default:
      return typeof val;
  }
}
function formatReflectMessage(desc) {
  return `ReflectMessage (${desc.typeName})`;
}
function formatReflectList(field) {
  switch (field.listKind) {
    case "message":
      return `ReflectList (${field.message.toString()})`;
    case "enum":
      return `ReflectList (${field.enum.toString()})`;
    case "scalar":
      return `ReflectList (${ScalarType[field.scalar]})`;
  }
}
function formatReflectMap(field) {
  switch (field.mapKind) {
    case "message":
      return `ReflectMap (${ScalarType[field.mapKey]}, ${field.message.toString()})`;
    case "enum":
      return `ReflectMap (${ScalarType[field.mapKey]}, ${field.enum.toString()})`;
    case "scalar":
      return `ReflectMap (${ScalarType[field.mapKey]}, ${ScalarType[field.scalar]})`;
  }
}
function scalarTypeDescription(scalar) {
  switch (scalar) {
    case ScalarType.STRING:
      return "string";
    case ScalarType.BOOL:
      return "boolean";
    case ScalarType.INT64:
    case ScalarType.SINT64:
    case ScalarType.SFIXED64:
      return "bigint (int64)";
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return "bigint (uint64)";
    case ScalarType.BYTES:
      return "Uint8Array";
    case ScalarType.DOUBLE:
      return "number (float64)";
    case ScalarType.FLOAT:
      return "number (float32)";
    case ScalarType.FIXED32:
    case ScalarType.UINT32:
      return "number (uint32)";
    case ScalarType.INT32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32:
      return "number (int32)";
  }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/reflect.js
function reflect(messageDesc2, message, check = !0) {
  return new ReflectMessageImpl(messageDesc2, message, check);
}
var messageSortedFields = /* @__PURE__ */ new WeakMap(), ReflectMessageImpl = class {
  get sortedFields() {
    let cached = messageSortedFields.get(this.desc);
    if (cached)
      return cached;
    let sortedFields = this.desc.fields.concat().sort((a, b) => a.number - b.number);
    return messageSortedFields.set(this.desc, sortedFields), sortedFields;
  }
  constructor(messageDesc2, message, check = !0) {
    this.lists = /* @__PURE__ */ new Map(), this.maps = /* @__PURE__ */ new Map(), this.check = check, this.desc = messageDesc2, this.message = this[unsafeLocal] = message ?? create(messageDesc2), this.fields = messageDesc2.fields, this.oneofs = messageDesc2.oneofs, this.members = messageDesc2.members;
  }
  findNumber(number) {
    return this._fieldsByNumber || (this._fieldsByNumber = new Map(this.desc.fields.map((f) => [f.number, f]))), this._fieldsByNumber.get(number);
  }
  oneofCase(oneof) {
    return assertOwn(this.message, oneof), unsafeOneofCase(this.message, oneof);
  }
  isSet(field) {
    return assertOwn(this.message, field), unsafeIsSet(this.message, field);
  }
  clear(field) {
    assertOwn(this.message, field), unsafeClear(this.message, field);
  }
  get(field) {
    assertOwn(this.message, field);
    let value = unsafeGet(this.message, field);
    switch (field.fieldKind) {
      case "list":
        let list = this.lists.get(field);
        return (!list || list[unsafeLocal] !== value) && this.lists.set(
          field,
          // biome-ignore lint/suspicious/noAssignInExpressions: no
          list = new ReflectListImpl(field, value, this.check)
        ), list;
      case "map":
        let map = this.maps.get(field);
        return (!map || map[unsafeLocal] !== value) && this.maps.set(
          field,
          // biome-ignore lint/suspicious/noAssignInExpressions: no
          map = new ReflectMapImpl(field, value, this.check)
        ), map;
      case "message":
        return messageToReflect(field, value, this.check);
      case "scalar":
        return value === void 0 ? scalarZeroValue(field.scalar, !1) : longToReflect(field, value);
      case "enum":
        return value ?? field.enum.values[0].number;
    }
  }
  set(field, value) {
    if (assertOwn(this.message, field), this.check) {
      let err = checkField(field, value);
      if (err)
        throw err;
    }
    let local;
    field.fieldKind == "message" ? local = messageToLocal(field, value) : isReflectMap(value) || isReflectList(value) ? local = value[unsafeLocal] : local = longToLocal(field, value), unsafeSet(this.message, field, local);
  }
  getUnknown() {
    return this.message.$unknown;
  }
  setUnknown(value) {
    this.message.$unknown = value;
  }
};
function assertOwn(owner, member) {
  if (member.parent.typeName !== owner.$typeName)
    throw new FieldError(member, `cannot use ${member.toString()} with message ${owner.$typeName}`, "ForeignFieldError");
}
var ReflectListImpl = class {
  field() {
    return this._field;
  }
  get size() {
    return this._arr.length;
  }
  constructor(field, unsafeInput, check) {
    this._field = field, this._arr = this[unsafeLocal] = unsafeInput, this.check = check;
  }
  get(index) {
    let item = this._arr[index];
    return item === void 0 ? void 0 : listItemToReflect(this._field, item, this.check);
  }
  set(index, item) {
    if (index < 0 || index >= this._arr.length)
      throw new FieldError(this._field, `list item #${index + 1}: out of range`);
    if (this.check) {
      let err = checkListItem(this._field, index, item);
      if (err)
        throw err;
    }
    this._arr[index] = listItemToLocal(this._field, item);
  }
  add(item) {
    if (this.check) {
      let err = checkListItem(this._field, this._arr.length, item);
      if (err)
        throw err;
    }
    this._arr.push(listItemToLocal(this._field, item));
  }
  clear() {
    this._arr.splice(0, this._arr.length);
  }
  [Symbol.iterator]() {
    return this.values();
  }
  keys() {
    return this._arr.keys();
  }
  *values() {
    for (let item of this._arr)
      yield listItemToReflect(this._field, item, this.check);
  }
  *entries() {
    for (let i = 0; i < this._arr.length; i++)
      yield [i, listItemToReflect(this._field, this._arr[i], this.check)];
  }
};
var ReflectMapImpl = class {
  constructor(field, unsafeInput, check = !0) {
    this.obj = this[unsafeLocal] = unsafeInput ?? {}, this.check = check, this._field = field;
  }
  field() {
    return this._field;
  }
  set(key, value) {
    if (this.check) {
      let err = checkMapEntry(this._field, key, value);
      if (err)
        throw err;
    }
    return this.obj[mapKeyToLocal(key)] = mapValueToLocal(this._field, value), this;
  }
  delete(key) {
    let k = mapKeyToLocal(key), has = Object.prototype.hasOwnProperty.call(this.obj, k);
    return has && delete this.obj[k], has;
  }
  clear() {
    for (let key of Object.keys(this.obj))
      delete this.obj[key];
  }
  get(key) {
    let val = this.obj[mapKeyToLocal(key)];
    return val !== void 0 && (val = mapValueToReflect(this._field, val, this.check)), val;
  }
  has(key) {
    return Object.prototype.hasOwnProperty.call(this.obj, mapKeyToLocal(key));
  }
  *keys() {
    for (let objKey of Object.keys(this.obj))
      yield mapKeyToReflect(objKey, this._field.mapKey);
  }
  *entries() {
    for (let objEntry of Object.entries(this.obj))
      yield [
        mapKeyToReflect(objEntry[0], this._field.mapKey),
        mapValueToReflect(this._field, objEntry[1], this.check)
      ];
  }
  [Symbol.iterator]() {
    return this.entries();
  }
  get size() {
    return Object.keys(this.obj).length;
  }
  *values() {
    for (let val of Object.values(this.obj))
      yield mapValueToReflect(this._field, val, this.check);
  }
  forEach(callbackfn, thisArg) {
    for (let mapEntry of this.entries())
      callbackfn.call(thisArg, mapEntry[1], mapEntry[0], this);
  }
};
function messageToLocal(field, value) {
  return isReflectMessage(value) ? isWrapper(value.message) && !field.oneof && field.fieldKind == "message" ? value.message.value : value.desc.typeName == "google.protobuf.Struct" && field.parent.typeName != "google.protobuf.Value" ? wktStructToLocal(value.message) : value.message : value;
}
function messageToReflect(field, value, check) {
  return value !== void 0 && (isWrapperDesc(field.message) && !field.oneof && field.fieldKind == "message" ? value = {
    $typeName: field.message.typeName,
    value: longToReflect(field.message.fields[0], value)
  } : field.message.typeName == "google.protobuf.Struct" && field.parent.typeName != "google.protobuf.Value" && isObject(value) && (value = wktStructToReflect(value))), new ReflectMessageImpl(field.message, value, check);
}
function listItemToLocal(field, value) {
  return field.listKind == "message" ? messageToLocal(field, value) : longToLocal(field, value);
}
function listItemToReflect(field, value, check) {
  return field.listKind == "message" ? messageToReflect(field, value, check) : longToReflect(field, value);
}
function mapValueToLocal(field, value) {
  return field.mapKind == "message" ? messageToLocal(field, value) : longToLocal(field, value);
}
function mapValueToReflect(field, value, check) {
  return field.mapKind == "message" ? messageToReflect(field, value, check) : value;
}
function mapKeyToLocal(key) {
  return typeof key == "string" || typeof key == "number" ? key : String(key);
}
function mapKeyToReflect(key, type) {
  switch (type) {
    case ScalarType.STRING:
      return key;
    case ScalarType.INT32:
    case ScalarType.FIXED32:
    case ScalarType.UINT32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32: {
      let n = Number.parseInt(key);
      if (Number.isFinite(n))
        return n;
      break;
    }
    case ScalarType.BOOL:
      switch (key) {
        case "true":
          return !0;
        case "false":
          return !1;
      }
      break;
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      try {
        return protoInt64.uParse(key);
      } catch {
      }
      break;
    default:
      try {
        return protoInt64.parse(key);
      } catch {
      }
      break;
  }
  return key;
}
function longToReflect(field, value) {
  switch (field.scalar) {
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
    case ScalarType.SINT64:
      "longAsString" in field && field.longAsString && typeof value == "string" && (value = protoInt64.parse(value));
      break;
    case ScalarType.FIXED64:
    case ScalarType.UINT64:
      "longAsString" in field && field.longAsString && typeof value == "string" && (value = protoInt64.uParse(value));
      break;
  }
  return value;
}
function longToLocal(field, value) {
  switch (field.scalar) {
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
    case ScalarType.SINT64:
      "longAsString" in field && field.longAsString ? value = String(value) : (typeof value == "string" || typeof value == "number") && (value = protoInt64.parse(value));
      break;
    case ScalarType.FIXED64:
    case ScalarType.UINT64:
      "longAsString" in field && field.longAsString ? value = String(value) : (typeof value == "string" || typeof value == "number") && (value = protoInt64.uParse(value));
      break;
  }
  return value;
}
function wktStructToReflect(json) {
  let struct = {
    $typeName: "google.protobuf.Struct",
    fields: {}
  };
  if (isObject(json))
    for (let [k, v] of Object.entries(json))
      struct.fields[k] = wktValueToReflect(v);
  return struct;
}
function wktStructToLocal(val) {
  let json = {};
  for (let [k, v] of Object.entries(val.fields))
    json[k] = wktValueToLocal(v);
  return json;
}
function wktValueToLocal(val) {
  switch (val.kind.case) {
    case "structValue":
      return wktStructToLocal(val.kind.value);
    case "listValue":
      return val.kind.value.values.map(wktValueToLocal);
    case "nullValue":
    case void 0:
      return null;
    default:
      return val.kind.value;
  }
}
function wktValueToReflect(json) {
  let value = {
    $typeName: "google.protobuf.Value",
    kind: { case: void 0 }
  };
  switch (typeof json) {
    case "number":
      value.kind = { case: "numberValue", value: json };
      break;
    case "string":
      value.kind = { case: "stringValue", value: json };
      break;
    case "boolean":
      value.kind = { case: "boolValue", value: json };
      break;
    case "object":
      if (json === null)
        value.kind = { case: "nullValue", value: 0 };
      else if (Array.isArray(json)) {
        let listValue = {
          $typeName: "google.protobuf.ListValue",
          values: []
        };
        if (Array.isArray(json))
          for (let e of json)
            listValue.values.push(wktValueToReflect(e));
        value.kind = {
          case: "listValue",
          value: listValue
        };
      } else
        value.kind = {
          case: "structValue",
          value: wktStructToReflect(json)
        };
      break;
  }
  return value;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wire/base64-encoding.js
function base64Decode(base64Str) {
  let table = getDecodeTable(), es = base64Str.length * 3 / 4;
  base64Str[base64Str.length - 2] == "=" ? es -= 2 : base64Str[base64Str.length - 1] == "=" && (es -= 1);
  let bytes = new Uint8Array(es), bytePos = 0, groupPos = 0, b, p = 0;
  for (let i = 0; i < base64Str.length; i++) {
    if (b = table[base64Str.charCodeAt(i)], b === void 0)
      switch (base64Str[i]) {
        // @ts-ignore TS7029: Fallthrough case in switch -- ignore instead of expect-error for compiler settings without noFallthroughCasesInSwitch: true
        case "=":
          groupPos = 0;
        // reset state when padding found
        case `
`:
        case "\r":
        case "	":
        case " ":
          continue;
        // skip white-space, and padding
        default:
          throw Error("invalid base64 string");
      }
    switch (groupPos) {
      case 0:
        p = b, groupPos = 1;
        break;
      case 1:
        bytes[bytePos++] = p << 2 | (b & 48) >> 4, p = b, groupPos = 2;
        break;
      case 2:
        bytes[bytePos++] = (p & 15) << 4 | (b & 60) >> 2, p = b, groupPos = 3;
        break;
      case 3:
        bytes[bytePos++] = (p & 3) << 6 | b, groupPos = 0;
        break;
    }
  }
  if (groupPos == 1)
    throw Error("invalid base64 string");
  return bytes.subarray(0, bytePos);
}
function base64Encode(bytes, encoding = "std") {
  let table = getEncodeTable(encoding), pad = encoding == "std", base64 = "", groupPos = 0, b, p = 0;
  for (let i = 0; i < bytes.length; i++)
    switch (b = bytes[i], groupPos) {
      case 0:
        base64 += table[b >> 2], p = (b & 3) << 4, groupPos = 1;
        break;
      case 1:
        base64 += table[p | b >> 4], p = (b & 15) << 2, groupPos = 2;
        break;
      case 2:
        base64 += table[p | b >> 6], base64 += table[b & 63], groupPos = 0;
        break;
    }
  return groupPos && (base64 += table[p], pad && (base64 += "=", groupPos == 1 && (base64 += "="))), base64;
}
var encodeTableStd, encodeTableUrl, decodeTable;
function getEncodeTable(encoding) {
  return encodeTableStd || (encodeTableStd = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".split(""), encodeTableUrl = encodeTableStd.slice(0, -2).concat("-", "_")), encoding == "url" ? (
    // biome-ignore lint/style/noNonNullAssertion: TS fails to narrow down
    encodeTableUrl
  ) : encodeTableStd;
}
function getDecodeTable() {
  if (!decodeTable) {
    decodeTable = [];
    let encodeTable = getEncodeTable("std");
    for (let i = 0; i < encodeTable.length; i++)
      decodeTable[encodeTable[i].charCodeAt(0)] = i;
    decodeTable[45] = encodeTable.indexOf("+"), decodeTable[95] = encodeTable.indexOf("/");
  }
  return decodeTable;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/names.js
function protoCamelCase(snakeCase) {
  let capNext = !1, b = [];
  for (let i = 0; i < snakeCase.length; i++) {
    let c = snakeCase.charAt(i);
    switch (c) {
      case "_":
        capNext = !0;
        break;
      case "0":
      case "1":
      case "2":
      case "3":
      case "4":
      case "5":
      case "6":
      case "7":
      case "8":
      case "9":
        b.push(c), capNext = !1;
        break;
      default:
        capNext && (capNext = !1, c = c.toUpperCase()), b.push(c);
        break;
    }
  }
  return b.join("");
}
function protoSnakeCase(lowerCamelCase) {
  return lowerCamelCase.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());
}
var reservedObjectProperties = /* @__PURE__ */ new Set([
  // names reserved by JavaScript
  "constructor",
  "toString",
  "toJSON",
  "valueOf"
]);
function safeObjectProperty(name) {
  return reservedObjectProperties.has(name) ? name + "$" : name;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/restore-json-names.js
function restoreJsonNames(message) {
  for (let f of message.field)
    unsafeIsSetExplicit(f, "jsonName") || (f.jsonName = protoCamelCase(f.name));
  message.nestedType.forEach(restoreJsonNames);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wire/text-format.js
function parseTextFormatEnumValue(descEnum, value) {
  let enumValue = descEnum.values.find((v) => v.name === value);
  if (!enumValue)
    throw new Error(`cannot parse ${descEnum} default value: ${value}`);
  return enumValue.number;
}
function parseTextFormatScalarValue(type, value) {
  switch (type) {
    case ScalarType.STRING:
      return value;
    case ScalarType.BYTES: {
      let u = unescapeBytesDefaultValue(value);
      if (u === !1)
        throw new Error(`cannot parse ${ScalarType[type]} default value: ${value}`);
      return u;
    }
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
    case ScalarType.SINT64:
      return protoInt64.parse(value);
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
      return protoInt64.uParse(value);
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      switch (value) {
        case "inf":
          return Number.POSITIVE_INFINITY;
        case "-inf":
          return Number.NEGATIVE_INFINITY;
        case "nan":
          return Number.NaN;
        default:
          return parseFloat(value);
      }
    case ScalarType.BOOL:
      return value === "true";
    case ScalarType.INT32:
    case ScalarType.UINT32:
    case ScalarType.SINT32:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
      return parseInt(value, 10);
  }
}
function unescapeBytesDefaultValue(str) {
  let b = [], input = {
    tail: str,
    c: "",
    next() {
      return this.tail.length == 0 ? !1 : (this.c = this.tail[0], this.tail = this.tail.substring(1), !0);
    },
    take(n) {
      if (this.tail.length >= n) {
        let r = this.tail.substring(0, n);
        return this.tail = this.tail.substring(n), r;
      }
      return !1;
    }
  };
  for (; input.next(); )
    switch (input.c) {
      case "\\":
        if (input.next())
          switch (input.c) {
            case "\\":
              b.push(input.c.charCodeAt(0));
              break;
            case "b":
              b.push(8);
              break;
            case "f":
              b.push(12);
              break;
            case "n":
              b.push(10);
              break;
            case "r":
              b.push(13);
              break;
            case "t":
              b.push(9);
              break;
            case "v":
              b.push(11);
              break;
            case "0":
            case "1":
            case "2":
            case "3":
            case "4":
            case "5":
            case "6":
            case "7": {
              let s = input.c, t = input.take(2);
              if (t === !1)
                return !1;
              let n = parseInt(s + t, 8);
              if (Number.isNaN(n))
                return !1;
              b.push(n);
              break;
            }
            case "x": {
              let s = input.c, t = input.take(2);
              if (t === !1)
                return !1;
              let n = parseInt(s + t, 16);
              if (Number.isNaN(n))
                return !1;
              b.push(n);
              break;
            }
            case "u": {
              let s = input.c, t = input.take(4);
              if (t === !1)
                return !1;
              let n = parseInt(s + t, 16);
              if (Number.isNaN(n))
                return !1;
              let chunk = new Uint8Array(4);
              new DataView(chunk.buffer).setInt32(0, n, !0), b.push(chunk[0], chunk[1], chunk[2], chunk[3]);
              break;
            }
            case "U": {
              let s = input.c, t = input.take(8);
              if (t === !1)
                return !1;
              let tc = protoInt64.uEnc(s + t), chunk = new Uint8Array(8), view = new DataView(chunk.buffer);
              view.setInt32(0, tc.lo, !0), view.setInt32(4, tc.hi, !0), b.push(chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7]);
              break;
            }
          }
        break;
      default:
        b.push(input.c.charCodeAt(0));
    }
  return new Uint8Array(b);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/reflect/nested-types.js
function* nestedTypes(desc) {
  switch (desc.kind) {
    case "file":
      for (let message of desc.messages)
        yield message, yield* nestedTypes(message);
      yield* desc.enums, yield* desc.services, yield* desc.extensions;
      break;
    case "message":
      for (let message of desc.nestedMessages)
        yield message, yield* nestedTypes(message);
      yield* desc.nestedEnums, yield* desc.nestedExtensions;
      break;
  }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/registry.js
function createFileRegistry(...args) {
  let registry = createBaseRegistry();
  if (!args.length)
    return registry;
  if ("$typeName" in args[0] && args[0].$typeName == "google.protobuf.FileDescriptorSet") {
    for (let file of args[0].file)
      addFile(file, registry);
    return registry;
  }
  if ("$typeName" in args[0]) {
    let recurseDeps = function(file) {
      let deps = [];
      for (let protoFileName of file.dependency) {
        if (registry.getFile(protoFileName) != null || seen.has(protoFileName))
          continue;
        let dep = resolve(protoFileName);
        if (!dep)
          throw new Error(`Unable to resolve ${protoFileName}, imported by ${file.name}`);
        "kind" in dep ? registry.addFile(dep, !1, !0) : (seen.add(dep.name), deps.push(dep));
      }
      return deps.concat(...deps.map(recurseDeps));
    }, input = args[0], resolve = args[1], seen = /* @__PURE__ */ new Set();
    for (let file of [input, ...recurseDeps(input)].reverse())
      addFile(file, registry);
  } else
    for (let fileReg of args)
      for (let file of fileReg.files)
        registry.addFile(file);
  return registry;
}
function createBaseRegistry() {
  let types = /* @__PURE__ */ new Map(), extendees = /* @__PURE__ */ new Map(), files = /* @__PURE__ */ new Map();
  return {
    kind: "registry",
    types,
    extendees,
    [Symbol.iterator]() {
      return types.values();
    },
    get files() {
      return files.values();
    },
    addFile(file, skipTypes, withDeps) {
      if (files.set(file.proto.name, file), !skipTypes)
        for (let type of nestedTypes(file))
          this.add(type);
      if (withDeps)
        for (let f of file.dependencies)
          this.addFile(f, skipTypes, withDeps);
    },
    add(desc) {
      if (desc.kind == "extension") {
        let numberToExt = extendees.get(desc.extendee.typeName);
        numberToExt || extendees.set(
          desc.extendee.typeName,
          // biome-ignore lint/suspicious/noAssignInExpressions: no
          numberToExt = /* @__PURE__ */ new Map()
        ), numberToExt.set(desc.number, desc);
      }
      types.set(desc.typeName, desc);
    },
    get(typeName) {
      return types.get(typeName);
    },
    getFile(fileName) {
      return files.get(fileName);
    },
    getMessage(typeName) {
      let t = types.get(typeName);
      return t?.kind == "message" ? t : void 0;
    },
    getEnum(typeName) {
      let t = types.get(typeName);
      return t?.kind == "enum" ? t : void 0;
    },
    getExtension(typeName) {
      let t = types.get(typeName);
      return t?.kind == "extension" ? t : void 0;
    },
    getExtensionFor(extendee, no) {
      var _a;
      return (_a = extendees.get(extendee.typeName)) === null || _a === void 0 ? void 0 : _a.get(no);
    },
    getService(typeName) {
      let t = types.get(typeName);
      return t?.kind == "service" ? t : void 0;
    }
  };
}
var EDITION_PROTO22 = 998, EDITION_PROTO32 = 999, EDITION_UNSTABLE = 9999, TYPE_STRING = 9, TYPE_GROUP = 10, TYPE_MESSAGE = 11, TYPE_BYTES = 12, TYPE_ENUM = 14, LABEL_REPEATED = 3, LABEL_REQUIRED = 2, JS_STRING = 1, IDEMPOTENCY_UNKNOWN = 0, EXPLICIT = 1, IMPLICIT3 = 2, LEGACY_REQUIRED = 3, PACKED = 1, DELIMITED = 2, OPEN = 1, VERIFY = 2;
var maximumEdition = 1001, featureDefaults = {
  // EDITION_PROTO2
  998: {
    fieldPresence: 1,
    // EXPLICIT,
    enumType: 2,
    // CLOSED,
    repeatedFieldEncoding: 2,
    // EXPANDED,
    utf8Validation: 3,
    // NONE,
    messageEncoding: 1,
    // LENGTH_PREFIXED,
    jsonFormat: 2,
    // LEGACY_BEST_EFFORT,
    enforceNamingStyle: 2,
    // STYLE_LEGACY,
    defaultSymbolVisibility: 1
    // EXPORT_ALL,
  },
  // EDITION_PROTO3
  999: {
    fieldPresence: 2,
    // IMPLICIT,
    enumType: 1,
    // OPEN,
    repeatedFieldEncoding: 1,
    // PACKED,
    utf8Validation: 2,
    // VERIFY,
    messageEncoding: 1,
    // LENGTH_PREFIXED,
    jsonFormat: 1,
    // ALLOW,
    enforceNamingStyle: 2,
    // STYLE_LEGACY,
    defaultSymbolVisibility: 1
    // EXPORT_ALL,
  },
  // EDITION_2023
  1e3: {
    fieldPresence: 1,
    // EXPLICIT,
    enumType: 1,
    // OPEN,
    repeatedFieldEncoding: 1,
    // PACKED,
    utf8Validation: 2,
    // VERIFY,
    messageEncoding: 1,
    // LENGTH_PREFIXED,
    jsonFormat: 1,
    // ALLOW,
    enforceNamingStyle: 2,
    // STYLE_LEGACY,
    defaultSymbolVisibility: 1
    // EXPORT_ALL,
  },
  // EDITION_2024
  1001: {
    fieldPresence: 1,
    // EXPLICIT,
    enumType: 1,
    // OPEN,
    repeatedFieldEncoding: 1,
    // PACKED,
    utf8Validation: 2,
    // VERIFY,
    messageEncoding: 1,
    // LENGTH_PREFIXED,
    jsonFormat: 1,
    // ALLOW,
    enforceNamingStyle: 1,
    // STYLE2024,
    defaultSymbolVisibility: 2
    // EXPORT_TOP_LEVEL,
  }
};
function addFile(proto, reg) {
  var _a, _b;
  let file = {
    kind: "file",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    edition: getFileEdition(proto),
    name: proto.name.replace(/\.proto$/, ""),
    dependencies: findFileDependencies(proto, reg),
    enums: [],
    messages: [],
    extensions: [],
    services: [],
    toString() {
      return `file ${proto.name}`;
    }
  }, mapEntriesStore = /* @__PURE__ */ new Map(), mapEntries = {
    get(typeName) {
      return mapEntriesStore.get(typeName);
    },
    add(desc) {
      var _a2;
      assert(((_a2 = desc.proto.options) === null || _a2 === void 0 ? void 0 : _a2.mapEntry) === !0), mapEntriesStore.set(desc.typeName, desc);
    }
  };
  for (let enumProto of proto.enumType)
    addEnum(enumProto, file, void 0, reg);
  for (let messageProto of proto.messageType)
    addMessage(messageProto, file, void 0, reg, mapEntries);
  for (let serviceProto of proto.service)
    addService(serviceProto, file, reg);
  addExtensions(file, reg);
  for (let mapEntry of mapEntriesStore.values())
    addFields(mapEntry, reg, mapEntries);
  for (let message of file.messages)
    addFields(message, reg, mapEntries), addExtensions(message, reg);
  reg.addFile(file, !0);
}
function addExtensions(desc, reg) {
  switch (desc.kind) {
    case "file":
      for (let proto of desc.proto.extension) {
        let ext = newField(proto, desc, reg);
        desc.extensions.push(ext), reg.add(ext);
      }
      break;
    case "message":
      for (let proto of desc.proto.extension) {
        let ext = newField(proto, desc, reg);
        desc.nestedExtensions.push(ext), reg.add(ext);
      }
      for (let message of desc.nestedMessages)
        addExtensions(message, reg);
      break;
  }
}
function addFields(message, reg, mapEntries) {
  let allOneofs = message.proto.oneofDecl.map((proto) => newOneof(proto, message)), oneofsSeen = /* @__PURE__ */ new Set();
  for (let proto of message.proto.field) {
    let oneof = findOneof(proto, allOneofs), field = newField(proto, message, reg, oneof, mapEntries);
    message.fields.push(field), message.field[field.localName] = field, oneof === void 0 ? message.members.push(field) : (oneof.fields.push(field), oneofsSeen.has(oneof) || (oneofsSeen.add(oneof), message.members.push(oneof)));
  }
  for (let oneof of allOneofs.filter((o) => oneofsSeen.has(o)))
    message.oneofs.push(oneof);
  for (let child of message.nestedMessages)
    addFields(child, reg, mapEntries);
}
function addEnum(proto, file, parent, reg) {
  var _a, _b, _c, _d, _e;
  let sharedPrefix = findEnumSharedPrefix(proto.name, proto.value), desc = {
    kind: "enum",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    file,
    parent,
    open: !0,
    name: proto.name,
    typeName: makeTypeName(proto, parent, file),
    value: {},
    values: [],
    sharedPrefix,
    toString() {
      return `enum ${this.typeName}`;
    }
  };
  desc.open = isEnumOpen(desc), reg.add(desc);
  for (let p of proto.value) {
    let name = p.name;
    desc.values.push(
      // biome-ignore lint/suspicious/noAssignInExpressions: no
      desc.value[p.number] = {
        kind: "enum_value",
        proto: p,
        deprecated: (_d = (_c = p.options) === null || _c === void 0 ? void 0 : _c.deprecated) !== null && _d !== void 0 ? _d : !1,
        parent: desc,
        name,
        localName: safeObjectProperty(sharedPrefix == null ? name : name.substring(sharedPrefix.length)),
        number: p.number,
        toString() {
          return `enum value ${desc.typeName}.${name}`;
        }
      }
    );
  }
  ((_e = parent?.nestedEnums) !== null && _e !== void 0 ? _e : file.enums).push(desc);
}
function addMessage(proto, file, parent, reg, mapEntries) {
  var _a, _b, _c, _d;
  let desc = {
    kind: "message",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    file,
    parent,
    name: proto.name,
    typeName: makeTypeName(proto, parent, file),
    fields: [],
    field: {},
    oneofs: [],
    members: [],
    nestedEnums: [],
    nestedMessages: [],
    nestedExtensions: [],
    toString() {
      return `message ${this.typeName}`;
    }
  };
  ((_c = proto.options) === null || _c === void 0 ? void 0 : _c.mapEntry) === !0 ? mapEntries.add(desc) : (((_d = parent?.nestedMessages) !== null && _d !== void 0 ? _d : file.messages).push(desc), reg.add(desc));
  for (let enumProto of proto.enumType)
    addEnum(enumProto, file, desc, reg);
  for (let messageProto of proto.nestedType)
    addMessage(messageProto, file, desc, reg, mapEntries);
}
function addService(proto, file, reg) {
  var _a, _b;
  let desc = {
    kind: "service",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    file,
    name: proto.name,
    typeName: makeTypeName(proto, void 0, file),
    methods: [],
    method: {},
    toString() {
      return `service ${this.typeName}`;
    }
  };
  file.services.push(desc), reg.add(desc);
  for (let methodProto of proto.method) {
    let method = newMethod(methodProto, desc, reg);
    desc.methods.push(method), desc.method[method.localName] = method;
  }
}
function newMethod(proto, parent, reg) {
  var _a, _b, _c, _d;
  let methodKind;
  proto.clientStreaming && proto.serverStreaming ? methodKind = "bidi_streaming" : proto.clientStreaming ? methodKind = "client_streaming" : proto.serverStreaming ? methodKind = "server_streaming" : methodKind = "unary";
  let input = reg.getMessage(trimLeadingDot(proto.inputType)), output = reg.getMessage(trimLeadingDot(proto.outputType));
  assert(input, `invalid MethodDescriptorProto: input_type ${proto.inputType} not found`), assert(output, `invalid MethodDescriptorProto: output_type ${proto.inputType} not found`);
  let name = proto.name;
  return {
    kind: "rpc",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    parent,
    name,
    localName: safeObjectProperty(name.length ? safeObjectProperty(name[0].toLowerCase() + name.substring(1)) : name),
    methodKind,
    input,
    output,
    idempotency: (_d = (_c = proto.options) === null || _c === void 0 ? void 0 : _c.idempotencyLevel) !== null && _d !== void 0 ? _d : IDEMPOTENCY_UNKNOWN,
    toString() {
      return `rpc ${parent.typeName}.${name}`;
    }
  };
}
function newOneof(proto, parent) {
  return {
    kind: "oneof",
    proto,
    deprecated: !1,
    parent,
    fields: [],
    name: proto.name,
    localName: safeObjectProperty(protoCamelCase(proto.name)),
    toString() {
      return `oneof ${parent.typeName}.${this.name}`;
    }
  };
}
function newField(proto, parentOrFile, reg, oneof, mapEntries) {
  var _a, _b, _c;
  let isExtension = mapEntries === void 0, field = {
    kind: "field",
    proto,
    deprecated: (_b = (_a = proto.options) === null || _a === void 0 ? void 0 : _a.deprecated) !== null && _b !== void 0 ? _b : !1,
    name: proto.name,
    number: proto.number,
    scalar: void 0,
    message: void 0,
    enum: void 0,
    presence: getFieldPresence(proto, oneof, isExtension, parentOrFile),
    utf8Validation: isUtf8Validated(proto, parentOrFile),
    listKind: void 0,
    mapKind: void 0,
    mapKey: void 0,
    delimitedEncoding: void 0,
    packed: void 0,
    longAsString: !1,
    getDefaultValue: void 0
  };
  if (isExtension) {
    let file = parentOrFile.kind == "file" ? parentOrFile : parentOrFile.file, parent = parentOrFile.kind == "file" ? void 0 : parentOrFile, typeName = makeTypeName(proto, parent, file);
    field.kind = "extension", field.file = file, field.parent = parent, field.oneof = void 0, field.typeName = typeName, field.jsonName = `[${typeName}]`, field.toString = () => `extension ${typeName}`;
    let extendee = reg.getMessage(trimLeadingDot(proto.extendee));
    assert(extendee, `invalid FieldDescriptorProto: extendee ${proto.extendee} not found`), field.extendee = extendee;
  } else {
    let parent = parentOrFile;
    assert(parent.kind == "message"), field.parent = parent, field.oneof = oneof, field.localName = oneof ? protoCamelCase(proto.name) : safeObjectProperty(protoCamelCase(proto.name)), field.jsonName = proto.jsonName, field.toString = () => `field ${parent.typeName}.${proto.name}`;
  }
  let label = proto.label, type = proto.type, jstype = (_c = proto.options) === null || _c === void 0 ? void 0 : _c.jstype;
  if (label === LABEL_REPEATED) {
    let mapEntry = type == TYPE_MESSAGE ? mapEntries?.get(trimLeadingDot(proto.typeName)) : void 0;
    if (mapEntry) {
      field.fieldKind = "map";
      let { key, value } = findMapEntryFields(mapEntry);
      return field.mapKey = key.scalar, field.mapKind = value.fieldKind, field.message = value.message, field.delimitedEncoding = !1, field.enum = value.enum, field.scalar = value.scalar, field;
    }
    switch (field.fieldKind = "list", type) {
      case TYPE_MESSAGE:
      case TYPE_GROUP:
        field.listKind = "message", field.message = reg.getMessage(trimLeadingDot(proto.typeName)), assert(field.message), field.delimitedEncoding = isDelimitedEncoding(proto, parentOrFile);
        break;
      case TYPE_ENUM:
        field.listKind = "enum", field.enum = reg.getEnum(trimLeadingDot(proto.typeName)), assert(field.enum);
        break;
      default:
        field.listKind = "scalar", field.scalar = type, field.longAsString = jstype == JS_STRING;
        break;
    }
    return field.packed = isPackedField(proto, parentOrFile), field;
  }
  switch (type) {
    case TYPE_MESSAGE:
    case TYPE_GROUP:
      field.fieldKind = "message", field.message = reg.getMessage(trimLeadingDot(proto.typeName)), assert(field.message, `invalid FieldDescriptorProto: type_name ${proto.typeName} not found`), field.delimitedEncoding = isDelimitedEncoding(proto, parentOrFile), field.getDefaultValue = () => {
      };
      break;
    case TYPE_ENUM: {
      let enumeration = reg.getEnum(trimLeadingDot(proto.typeName));
      assert(enumeration !== void 0, `invalid FieldDescriptorProto: type_name ${proto.typeName} not found`), field.fieldKind = "enum", field.enum = reg.getEnum(trimLeadingDot(proto.typeName)), field.getDefaultValue = () => unsafeIsSetExplicit(proto, "defaultValue") ? parseTextFormatEnumValue(enumeration, proto.defaultValue) : void 0;
      break;
    }
    default: {
      field.fieldKind = "scalar", field.scalar = type, field.longAsString = jstype == JS_STRING, field.getDefaultValue = () => unsafeIsSetExplicit(proto, "defaultValue") ? parseTextFormatScalarValue(type, proto.defaultValue) : void 0;
      break;
    }
  }
  return field;
}
function getFileEdition(proto) {
  switch (proto.syntax) {
    case "":
    case "proto2":
      return EDITION_PROTO22;
    case "proto3":
      return EDITION_PROTO32;
    case "editions":
      if (proto.edition === EDITION_UNSTABLE)
        return maximumEdition;
      if (proto.edition in featureDefaults)
        return proto.edition;
      throw new Error(`${proto.name}: unsupported edition`);
    default:
      throw new Error(`${proto.name}: unsupported syntax "${proto.syntax}"`);
  }
}
function findFileDependencies(proto, reg) {
  return proto.dependency.map((wantName) => {
    let dep = reg.getFile(wantName);
    if (!dep)
      throw new Error(`Cannot find ${wantName}, imported by ${proto.name}`);
    return dep;
  });
}
function findEnumSharedPrefix(enumName, values) {
  let prefix = camelToSnakeCase(enumName) + "_";
  for (let value of values) {
    if (!value.name.toLowerCase().startsWith(prefix))
      return;
    let shortName = value.name.substring(prefix.length);
    if (shortName.length == 0 || /^\d/.test(shortName))
      return;
  }
  return prefix;
}
function camelToSnakeCase(camel) {
  return (camel.substring(0, 1) + camel.substring(1).replace(/[A-Z]/g, (c) => "_" + c)).toLowerCase();
}
function makeTypeName(proto, parent, file) {
  let typeName;
  return parent ? typeName = `${parent.typeName}.${proto.name}` : file.proto.package.length > 0 ? typeName = `${file.proto.package}.${proto.name}` : typeName = `${proto.name}`, typeName;
}
function trimLeadingDot(typeName) {
  return typeName.startsWith(".") ? typeName.substring(1) : typeName;
}
function findOneof(proto, allOneofs) {
  if (!unsafeIsSetExplicit(proto, "oneofIndex") || proto.proto3Optional)
    return;
  let oneof = allOneofs[proto.oneofIndex];
  return assert(oneof, `invalid FieldDescriptorProto: oneof #${proto.oneofIndex} for field #${proto.number} not found`), oneof;
}
function getFieldPresence(proto, oneof, isExtension, parent) {
  if (proto.label == LABEL_REQUIRED)
    return LEGACY_REQUIRED;
  if (proto.label == LABEL_REPEATED)
    return IMPLICIT3;
  if (oneof || proto.proto3Optional || isExtension)
    return EXPLICIT;
  let resolved = resolveFeature("fieldPresence", { proto, parent });
  return resolved == IMPLICIT3 && (proto.type == TYPE_MESSAGE || proto.type == TYPE_GROUP) ? EXPLICIT : resolved;
}
function isPackedField(proto, parent) {
  if (proto.label != LABEL_REPEATED)
    return !1;
  switch (proto.type) {
    case TYPE_STRING:
    case TYPE_BYTES:
    case TYPE_GROUP:
    case TYPE_MESSAGE:
      return !1;
  }
  let o = proto.options;
  return o && unsafeIsSetExplicit(o, "packed") ? o.packed : PACKED == resolveFeature("repeatedFieldEncoding", {
    proto,
    parent
  });
}
function findMapEntryFields(mapEntry) {
  let key = mapEntry.fields.find((f) => f.number === 1), value = mapEntry.fields.find((f) => f.number === 2);
  return assert(key && key.fieldKind == "scalar" && key.scalar != ScalarType.BYTES && key.scalar != ScalarType.FLOAT && key.scalar != ScalarType.DOUBLE && value && value.fieldKind != "list" && value.fieldKind != "map"), { key, value };
}
function isEnumOpen(desc) {
  var _a;
  return OPEN == resolveFeature("enumType", {
    proto: desc.proto,
    parent: (_a = desc.parent) !== null && _a !== void 0 ? _a : desc.file
  });
}
function isDelimitedEncoding(proto, parent) {
  return proto.type == TYPE_GROUP ? !0 : DELIMITED == resolveFeature("messageEncoding", {
    proto,
    parent
  });
}
function isUtf8Validated(proto, parent) {
  return VERIFY == resolveFeature("utf8Validation", {
    proto,
    parent
  });
}
function resolveFeature(name, ref) {
  var _a, _b;
  let featureSet = (_a = ref.proto.options) === null || _a === void 0 ? void 0 : _a.features;
  if (featureSet) {
    let val = featureSet[name];
    if (val != 0)
      return val;
  }
  if ("kind" in ref) {
    if (ref.kind == "message")
      return resolveFeature(name, (_b = ref.parent) !== null && _b !== void 0 ? _b : ref.file);
    let editionDefaults = featureDefaults[ref.edition];
    if (!editionDefaults)
      throw new Error(`feature default for edition ${ref.edition} not found`);
    return editionDefaults[name];
  }
  return resolveFeature(name, ref.parent);
}
function assert(condition, msg) {
  if (!condition)
    throw new Error(msg);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/boot.js
function boot(boot2) {
  let root = bootFileDescriptorProto(boot2);
  return root.messageType.forEach(restoreJsonNames), createFileRegistry(root, () => {
  }).getFile(root.name);
}
function bootFileDescriptorProto(init) {
  return Object.assign(/* @__PURE__ */ Object.create({
    syntax: "",
    edition: 0
  }), Object.assign(Object.assign({ $typeName: "google.protobuf.FileDescriptorProto", dependency: [], publicDependency: [], weakDependency: [], optionDependency: [], service: [], extension: [] }, init), { messageType: init.messageType.map(bootDescriptorProto), enumType: init.enumType.map(bootEnumDescriptorProto) }));
}
function bootDescriptorProto(init) {
  var _a, _b, _c, _d, _e, _f, _g, _h;
  return Object.assign(/* @__PURE__ */ Object.create({
    visibility: 0
  }), {
    $typeName: "google.protobuf.DescriptorProto",
    name: init.name,
    field: (_b = (_a = init.field) === null || _a === void 0 ? void 0 : _a.map(bootFieldDescriptorProto)) !== null && _b !== void 0 ? _b : [],
    extension: [],
    nestedType: (_d = (_c = init.nestedType) === null || _c === void 0 ? void 0 : _c.map(bootDescriptorProto)) !== null && _d !== void 0 ? _d : [],
    enumType: (_f = (_e = init.enumType) === null || _e === void 0 ? void 0 : _e.map(bootEnumDescriptorProto)) !== null && _f !== void 0 ? _f : [],
    extensionRange: (_h = (_g = init.extensionRange) === null || _g === void 0 ? void 0 : _g.map((e) => Object.assign({ $typeName: "google.protobuf.DescriptorProto.ExtensionRange" }, e))) !== null && _h !== void 0 ? _h : [],
    oneofDecl: [],
    reservedRange: [],
    reservedName: []
  });
}
function bootFieldDescriptorProto(init) {
  return Object.assign(/* @__PURE__ */ Object.create({
    label: 1,
    typeName: "",
    extendee: "",
    defaultValue: "",
    oneofIndex: 0,
    jsonName: "",
    proto3Optional: !1
  }), Object.assign(Object.assign({ $typeName: "google.protobuf.FieldDescriptorProto" }, init), { options: init.options ? bootFieldOptions(init.options) : void 0 }));
}
function bootFieldOptions(init) {
  var _a, _b, _c;
  return Object.assign(/* @__PURE__ */ Object.create({
    ctype: 0,
    packed: !1,
    jstype: 0,
    lazy: !1,
    unverifiedLazy: !1,
    deprecated: !1,
    weak: !1,
    debugRedact: !1,
    retention: 0
  }), Object.assign(Object.assign({ $typeName: "google.protobuf.FieldOptions" }, init), { targets: (_a = init.targets) !== null && _a !== void 0 ? _a : [], editionDefaults: (_c = (_b = init.editionDefaults) === null || _b === void 0 ? void 0 : _b.map((e) => Object.assign({ $typeName: "google.protobuf.FieldOptions.EditionDefault" }, e))) !== null && _c !== void 0 ? _c : [], uninterpretedOption: [] }));
}
function bootEnumDescriptorProto(init) {
  return Object.assign(/* @__PURE__ */ Object.create({
    visibility: 0
  }), {
    $typeName: "google.protobuf.EnumDescriptorProto",
    name: init.name,
    reservedName: [],
    reservedRange: [],
    value: init.value.map((e) => Object.assign({ $typeName: "google.protobuf.EnumValueDescriptorProto" }, e))
  });
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/message.js
function messageDesc(file, path, ...paths) {
  return paths.reduce((acc, cur) => acc.nestedMessages[cur], file.messages[path]);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wkt/gen/google/protobuf/descriptor_pb.js
var file_google_protobuf_descriptor = /* @__PURE__ */ boot({ name: "google/protobuf/descriptor.proto", package: "google.protobuf", messageType: [{ name: "FileDescriptorSet", field: [{ name: "file", number: 1, type: 11, label: 3, typeName: ".google.protobuf.FileDescriptorProto" }], extensionRange: [{ start: 536e6, end: 536000001 }] }, { name: "FileDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "package", number: 2, type: 9, label: 1 }, { name: "dependency", number: 3, type: 9, label: 3 }, { name: "public_dependency", number: 10, type: 5, label: 3 }, { name: "weak_dependency", number: 11, type: 5, label: 3 }, { name: "option_dependency", number: 15, type: 9, label: 3 }, { name: "message_type", number: 4, type: 11, label: 3, typeName: ".google.protobuf.DescriptorProto" }, { name: "enum_type", number: 5, type: 11, label: 3, typeName: ".google.protobuf.EnumDescriptorProto" }, { name: "service", number: 6, type: 11, label: 3, typeName: ".google.protobuf.ServiceDescriptorProto" }, { name: "extension", number: 7, type: 11, label: 3, typeName: ".google.protobuf.FieldDescriptorProto" }, { name: "options", number: 8, type: 11, label: 1, typeName: ".google.protobuf.FileOptions" }, { name: "source_code_info", number: 9, type: 11, label: 1, typeName: ".google.protobuf.SourceCodeInfo" }, { name: "syntax", number: 12, type: 9, label: 1 }, { name: "edition", number: 14, type: 14, label: 1, typeName: ".google.protobuf.Edition" }] }, { name: "DescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "field", number: 2, type: 11, label: 3, typeName: ".google.protobuf.FieldDescriptorProto" }, { name: "extension", number: 6, type: 11, label: 3, typeName: ".google.protobuf.FieldDescriptorProto" }, { name: "nested_type", number: 3, type: 11, label: 3, typeName: ".google.protobuf.DescriptorProto" }, { name: "enum_type", number: 4, type: 11, label: 3, typeName: ".google.protobuf.EnumDescriptorProto" }, { name: "extension_range", number: 5, type: 11, label: 3, typeName: ".google.protobuf.DescriptorProto.ExtensionRange" }, { name: "oneof_decl", number: 8, type: 11, label: 3, typeName: ".google.protobuf.OneofDescriptorProto" }, { name: "options", number: 7, type: 11, label: 1, typeName: ".google.protobuf.MessageOptions" }, { name: "reserved_range", number: 9, type: 11, label: 3, typeName: ".google.protobuf.DescriptorProto.ReservedRange" }, { name: "reserved_name", number: 10, type: 9, label: 3 }, { name: "visibility", number: 11, type: 14, label: 1, typeName: ".google.protobuf.SymbolVisibility" }], nestedType: [{ name: "ExtensionRange", field: [{ name: "start", number: 1, type: 5, label: 1 }, { name: "end", number: 2, type: 5, label: 1 }, { name: "options", number: 3, type: 11, label: 1, typeName: ".google.protobuf.ExtensionRangeOptions" }] }, { name: "ReservedRange", field: [{ name: "start", number: 1, type: 5, label: 1 }, { name: "end", number: 2, type: 5, label: 1 }] }] }, { name: "ExtensionRangeOptions", field: [{ name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }, { name: "declaration", number: 2, type: 11, label: 3, typeName: ".google.protobuf.ExtensionRangeOptions.Declaration", options: { retention: 2 } }, { name: "features", number: 50, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "verification", number: 3, type: 14, label: 1, typeName: ".google.protobuf.ExtensionRangeOptions.VerificationState", defaultValue: "UNVERIFIED", options: { retention: 2 } }], nestedType: [{ name: "Declaration", field: [{ name: "number", number: 1, type: 5, label: 1 }, { name: "full_name", number: 2, type: 9, label: 1 }, { name: "type", number: 3, type: 9, label: 1 }, { name: "reserved", number: 5, type: 8, label: 1 }, { name: "repeated", number: 6, type: 8, label: 1 }] }], enumType: [{ name: "VerificationState", value: [{ name: "DECLARATION", number: 0 }, { name: "UNVERIFIED", number: 1 }] }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "FieldDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "number", number: 3, type: 5, label: 1 }, { name: "label", number: 4, type: 14, label: 1, typeName: ".google.protobuf.FieldDescriptorProto.Label" }, { name: "type", number: 5, type: 14, label: 1, typeName: ".google.protobuf.FieldDescriptorProto.Type" }, { name: "type_name", number: 6, type: 9, label: 1 }, { name: "extendee", number: 2, type: 9, label: 1 }, { name: "default_value", number: 7, type: 9, label: 1 }, { name: "oneof_index", number: 9, type: 5, label: 1 }, { name: "json_name", number: 10, type: 9, label: 1 }, { name: "options", number: 8, type: 11, label: 1, typeName: ".google.protobuf.FieldOptions" }, { name: "proto3_optional", number: 17, type: 8, label: 1 }], enumType: [{ name: "Type", value: [{ name: "TYPE_DOUBLE", number: 1 }, { name: "TYPE_FLOAT", number: 2 }, { name: "TYPE_INT64", number: 3 }, { name: "TYPE_UINT64", number: 4 }, { name: "TYPE_INT32", number: 5 }, { name: "TYPE_FIXED64", number: 6 }, { name: "TYPE_FIXED32", number: 7 }, { name: "TYPE_BOOL", number: 8 }, { name: "TYPE_STRING", number: 9 }, { name: "TYPE_GROUP", number: 10 }, { name: "TYPE_MESSAGE", number: 11 }, { name: "TYPE_BYTES", number: 12 }, { name: "TYPE_UINT32", number: 13 }, { name: "TYPE_ENUM", number: 14 }, { name: "TYPE_SFIXED32", number: 15 }, { name: "TYPE_SFIXED64", number: 16 }, { name: "TYPE_SINT32", number: 17 }, { name: "TYPE_SINT64", number: 18 }] }, { name: "Label", value: [{ name: "LABEL_OPTIONAL", number: 1 }, { name: "LABEL_REPEATED", number: 3 }, { name: "LABEL_REQUIRED", number: 2 }] }] }, { name: "OneofDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "options", number: 2, type: 11, label: 1, typeName: ".google.protobuf.OneofOptions" }] }, { name: "EnumDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "value", number: 2, type: 11, label: 3, typeName: ".google.protobuf.EnumValueDescriptorProto" }, { name: "options", number: 3, type: 11, label: 1, typeName: ".google.protobuf.EnumOptions" }, { name: "reserved_range", number: 4, type: 11, label: 3, typeName: ".google.protobuf.EnumDescriptorProto.EnumReservedRange" }, { name: "reserved_name", number: 5, type: 9, label: 3 }, { name: "visibility", number: 6, type: 14, label: 1, typeName: ".google.protobuf.SymbolVisibility" }], nestedType: [{ name: "EnumReservedRange", field: [{ name: "start", number: 1, type: 5, label: 1 }, { name: "end", number: 2, type: 5, label: 1 }] }] }, { name: "EnumValueDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "number", number: 2, type: 5, label: 1 }, { name: "options", number: 3, type: 11, label: 1, typeName: ".google.protobuf.EnumValueOptions" }] }, { name: "ServiceDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "method", number: 2, type: 11, label: 3, typeName: ".google.protobuf.MethodDescriptorProto" }, { name: "options", number: 3, type: 11, label: 1, typeName: ".google.protobuf.ServiceOptions" }] }, { name: "MethodDescriptorProto", field: [{ name: "name", number: 1, type: 9, label: 1 }, { name: "input_type", number: 2, type: 9, label: 1 }, { name: "output_type", number: 3, type: 9, label: 1 }, { name: "options", number: 4, type: 11, label: 1, typeName: ".google.protobuf.MethodOptions" }, { name: "client_streaming", number: 5, type: 8, label: 1, defaultValue: "false" }, { name: "server_streaming", number: 6, type: 8, label: 1, defaultValue: "false" }] }, { name: "FileOptions", field: [{ name: "java_package", number: 1, type: 9, label: 1 }, { name: "java_outer_classname", number: 8, type: 9, label: 1 }, { name: "java_multiple_files", number: 10, type: 8, label: 1, defaultValue: "false", options: {} }, { name: "java_generate_equals_and_hash", number: 20, type: 8, label: 1, options: { deprecated: !0 } }, { name: "java_string_check_utf8", number: 27, type: 8, label: 1, defaultValue: "false" }, { name: "optimize_for", number: 9, type: 14, label: 1, typeName: ".google.protobuf.FileOptions.OptimizeMode", defaultValue: "SPEED" }, { name: "go_package", number: 11, type: 9, label: 1 }, { name: "cc_generic_services", number: 16, type: 8, label: 1, defaultValue: "false" }, { name: "java_generic_services", number: 17, type: 8, label: 1, defaultValue: "false" }, { name: "py_generic_services", number: 18, type: 8, label: 1, defaultValue: "false" }, { name: "deprecated", number: 23, type: 8, label: 1, defaultValue: "false" }, { name: "cc_enable_arenas", number: 31, type: 8, label: 1, defaultValue: "true" }, { name: "objc_class_prefix", number: 36, type: 9, label: 1 }, { name: "csharp_namespace", number: 37, type: 9, label: 1 }, { name: "swift_prefix", number: 39, type: 9, label: 1 }, { name: "php_class_prefix", number: 40, type: 9, label: 1 }, { name: "php_namespace", number: 41, type: 9, label: 1 }, { name: "php_metadata_namespace", number: 44, type: 9, label: 1 }, { name: "ruby_package", number: 45, type: 9, label: 1 }, { name: "features", number: 50, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], enumType: [{ name: "OptimizeMode", value: [{ name: "SPEED", number: 1 }, { name: "CODE_SIZE", number: 2 }, { name: "LITE_RUNTIME", number: 3 }] }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "MessageOptions", field: [{ name: "message_set_wire_format", number: 1, type: 8, label: 1, defaultValue: "false" }, { name: "no_standard_descriptor_accessor", number: 2, type: 8, label: 1, defaultValue: "false" }, { name: "deprecated", number: 3, type: 8, label: 1, defaultValue: "false" }, { name: "map_entry", number: 7, type: 8, label: 1 }, { name: "deprecated_legacy_json_field_conflicts", number: 11, type: 8, label: 1, options: { deprecated: !0 } }, { name: "features", number: 12, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "FieldOptions", field: [{ name: "ctype", number: 1, type: 14, label: 1, typeName: ".google.protobuf.FieldOptions.CType", defaultValue: "STRING" }, { name: "packed", number: 2, type: 8, label: 1 }, { name: "jstype", number: 6, type: 14, label: 1, typeName: ".google.protobuf.FieldOptions.JSType", defaultValue: "JS_NORMAL" }, { name: "lazy", number: 5, type: 8, label: 1, defaultValue: "false" }, { name: "unverified_lazy", number: 15, type: 8, label: 1, defaultValue: "false" }, { name: "deprecated", number: 3, type: 8, label: 1, defaultValue: "false" }, { name: "weak", number: 10, type: 8, label: 1, defaultValue: "false", options: { deprecated: !0 } }, { name: "debug_redact", number: 16, type: 8, label: 1, defaultValue: "false" }, { name: "retention", number: 17, type: 14, label: 1, typeName: ".google.protobuf.FieldOptions.OptionRetention" }, { name: "targets", number: 19, type: 14, label: 3, typeName: ".google.protobuf.FieldOptions.OptionTargetType" }, { name: "edition_defaults", number: 20, type: 11, label: 3, typeName: ".google.protobuf.FieldOptions.EditionDefault" }, { name: "features", number: 21, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "feature_support", number: 22, type: 11, label: 1, typeName: ".google.protobuf.FieldOptions.FeatureSupport" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], nestedType: [{ name: "EditionDefault", field: [{ name: "edition", number: 3, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "value", number: 2, type: 9, label: 1 }] }, { name: "FeatureSupport", field: [{ name: "edition_introduced", number: 1, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "edition_deprecated", number: 2, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "deprecation_warning", number: 3, type: 9, label: 1 }, { name: "edition_removed", number: 4, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "removal_error", number: 5, type: 9, label: 1 }] }], enumType: [{ name: "CType", value: [{ name: "STRING", number: 0 }, { name: "CORD", number: 1 }, { name: "STRING_PIECE", number: 2 }] }, { name: "JSType", value: [{ name: "JS_NORMAL", number: 0 }, { name: "JS_STRING", number: 1 }, { name: "JS_NUMBER", number: 2 }] }, { name: "OptionRetention", value: [{ name: "RETENTION_UNKNOWN", number: 0 }, { name: "RETENTION_RUNTIME", number: 1 }, { name: "RETENTION_SOURCE", number: 2 }] }, { name: "OptionTargetType", value: [{ name: "TARGET_TYPE_UNKNOWN", number: 0 }, { name: "TARGET_TYPE_FILE", number: 1 }, { name: "TARGET_TYPE_EXTENSION_RANGE", number: 2 }, { name: "TARGET_TYPE_MESSAGE", number: 3 }, { name: "TARGET_TYPE_FIELD", number: 4 }, { name: "TARGET_TYPE_ONEOF", number: 5 }, { name: "TARGET_TYPE_ENUM", number: 6 }, { name: "TARGET_TYPE_ENUM_ENTRY", number: 7 }, { name: "TARGET_TYPE_SERVICE", number: 8 }, { name: "TARGET_TYPE_METHOD", number: 9 }] }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "OneofOptions", field: [{ name: "features", number: 1, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "EnumOptions", field: [{ name: "allow_alias", number: 2, type: 8, label: 1 }, { name: "deprecated", number: 3, type: 8, label: 1, defaultValue: "false" }, { name: "deprecated_legacy_json_field_conflicts", number: 6, type: 8, label: 1, options: { deprecated: !0 } }, { name: "features", number: 7, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "EnumValueOptions", field: [{ name: "deprecated", number: 1, type: 8, label: 1, defaultValue: "false" }, { name: "features", number: 2, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "debug_redact", number: 3, type: 8, label: 1, defaultValue: "false" }, { name: "feature_support", number: 4, type: 11, label: 1, typeName: ".google.protobuf.FieldOptions.FeatureSupport" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "ServiceOptions", field: [{ name: "features", number: 34, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "deprecated", number: 33, type: 8, label: 1, defaultValue: "false" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "MethodOptions", field: [{ name: "deprecated", number: 33, type: 8, label: 1, defaultValue: "false" }, { name: "idempotency_level", number: 34, type: 14, label: 1, typeName: ".google.protobuf.MethodOptions.IdempotencyLevel", defaultValue: "IDEMPOTENCY_UNKNOWN" }, { name: "features", number: 35, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "uninterpreted_option", number: 999, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption" }], enumType: [{ name: "IdempotencyLevel", value: [{ name: "IDEMPOTENCY_UNKNOWN", number: 0 }, { name: "NO_SIDE_EFFECTS", number: 1 }, { name: "IDEMPOTENT", number: 2 }] }], extensionRange: [{ start: 1e3, end: 536870912 }] }, { name: "UninterpretedOption", field: [{ name: "name", number: 2, type: 11, label: 3, typeName: ".google.protobuf.UninterpretedOption.NamePart" }, { name: "identifier_value", number: 3, type: 9, label: 1 }, { name: "positive_int_value", number: 4, type: 4, label: 1 }, { name: "negative_int_value", number: 5, type: 3, label: 1 }, { name: "double_value", number: 6, type: 1, label: 1 }, { name: "string_value", number: 7, type: 12, label: 1 }, { name: "aggregate_value", number: 8, type: 9, label: 1 }], nestedType: [{ name: "NamePart", field: [{ name: "name_part", number: 1, type: 9, label: 2 }, { name: "is_extension", number: 2, type: 8, label: 2 }] }] }, { name: "FeatureSet", field: [{ name: "field_presence", number: 1, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.FieldPresence", options: { retention: 1, targets: [4, 1], editionDefaults: [{ value: "EXPLICIT", edition: 900 }, { value: "IMPLICIT", edition: 999 }, { value: "EXPLICIT", edition: 1e3 }] } }, { name: "enum_type", number: 2, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.EnumType", options: { retention: 1, targets: [6, 1], editionDefaults: [{ value: "CLOSED", edition: 900 }, { value: "OPEN", edition: 999 }] } }, { name: "repeated_field_encoding", number: 3, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.RepeatedFieldEncoding", options: { retention: 1, targets: [4, 1], editionDefaults: [{ value: "EXPANDED", edition: 900 }, { value: "PACKED", edition: 999 }] } }, { name: "utf8_validation", number: 4, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.Utf8Validation", options: { retention: 1, targets: [4, 1], editionDefaults: [{ value: "NONE", edition: 900 }, { value: "VERIFY", edition: 999 }] } }, { name: "message_encoding", number: 5, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.MessageEncoding", options: { retention: 1, targets: [4, 1], editionDefaults: [{ value: "LENGTH_PREFIXED", edition: 900 }] } }, { name: "json_format", number: 6, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.JsonFormat", options: { retention: 1, targets: [3, 6, 1], editionDefaults: [{ value: "LEGACY_BEST_EFFORT", edition: 900 }, { value: "ALLOW", edition: 999 }] } }, { name: "enforce_naming_style", number: 7, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.EnforceNamingStyle", options: { retention: 2, targets: [1, 2, 3, 4, 5, 6, 7, 8, 9], editionDefaults: [{ value: "STYLE_LEGACY", edition: 900 }, { value: "STYLE2024", edition: 1001 }] } }, { name: "default_symbol_visibility", number: 8, type: 14, label: 1, typeName: ".google.protobuf.FeatureSet.VisibilityFeature.DefaultSymbolVisibility", options: { retention: 2, targets: [1], editionDefaults: [{ value: "EXPORT_ALL", edition: 900 }, { value: "EXPORT_TOP_LEVEL", edition: 1001 }] } }], nestedType: [{ name: "VisibilityFeature", enumType: [{ name: "DefaultSymbolVisibility", value: [{ name: "DEFAULT_SYMBOL_VISIBILITY_UNKNOWN", number: 0 }, { name: "EXPORT_ALL", number: 1 }, { name: "EXPORT_TOP_LEVEL", number: 2 }, { name: "LOCAL_ALL", number: 3 }, { name: "STRICT", number: 4 }] }] }], enumType: [{ name: "FieldPresence", value: [{ name: "FIELD_PRESENCE_UNKNOWN", number: 0 }, { name: "EXPLICIT", number: 1 }, { name: "IMPLICIT", number: 2 }, { name: "LEGACY_REQUIRED", number: 3 }] }, { name: "EnumType", value: [{ name: "ENUM_TYPE_UNKNOWN", number: 0 }, { name: "OPEN", number: 1 }, { name: "CLOSED", number: 2 }] }, { name: "RepeatedFieldEncoding", value: [{ name: "REPEATED_FIELD_ENCODING_UNKNOWN", number: 0 }, { name: "PACKED", number: 1 }, { name: "EXPANDED", number: 2 }] }, { name: "Utf8Validation", value: [{ name: "UTF8_VALIDATION_UNKNOWN", number: 0 }, { name: "VERIFY", number: 2 }, { name: "NONE", number: 3 }] }, { name: "MessageEncoding", value: [{ name: "MESSAGE_ENCODING_UNKNOWN", number: 0 }, { name: "LENGTH_PREFIXED", number: 1 }, { name: "DELIMITED", number: 2 }] }, { name: "JsonFormat", value: [{ name: "JSON_FORMAT_UNKNOWN", number: 0 }, { name: "ALLOW", number: 1 }, { name: "LEGACY_BEST_EFFORT", number: 2 }] }, { name: "EnforceNamingStyle", value: [{ name: "ENFORCE_NAMING_STYLE_UNKNOWN", number: 0 }, { name: "STYLE2024", number: 1 }, { name: "STYLE_LEGACY", number: 2 }] }], extensionRange: [{ start: 1e3, end: 9995 }, { start: 9995, end: 1e4 }, { start: 1e4, end: 10001 }] }, { name: "FeatureSetDefaults", field: [{ name: "defaults", number: 1, type: 11, label: 3, typeName: ".google.protobuf.FeatureSetDefaults.FeatureSetEditionDefault" }, { name: "minimum_edition", number: 4, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "maximum_edition", number: 5, type: 14, label: 1, typeName: ".google.protobuf.Edition" }], nestedType: [{ name: "FeatureSetEditionDefault", field: [{ name: "edition", number: 3, type: 14, label: 1, typeName: ".google.protobuf.Edition" }, { name: "overridable_features", number: 4, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }, { name: "fixed_features", number: 5, type: 11, label: 1, typeName: ".google.protobuf.FeatureSet" }] }] }, { name: "SourceCodeInfo", field: [{ name: "location", number: 1, type: 11, label: 3, typeName: ".google.protobuf.SourceCodeInfo.Location" }], nestedType: [{ name: "Location", field: [{ name: "path", number: 1, type: 5, label: 3, options: { packed: !0 } }, { name: "span", number: 2, type: 5, label: 3, options: { packed: !0 } }, { name: "leading_comments", number: 3, type: 9, label: 1 }, { name: "trailing_comments", number: 4, type: 9, label: 1 }, { name: "leading_detached_comments", number: 6, type: 9, label: 3 }] }], extensionRange: [{ start: 536e6, end: 536000001 }] }, { name: "GeneratedCodeInfo", field: [{ name: "annotation", number: 1, type: 11, label: 3, typeName: ".google.protobuf.GeneratedCodeInfo.Annotation" }], nestedType: [{ name: "Annotation", field: [{ name: "path", number: 1, type: 5, label: 3, options: { packed: !0 } }, { name: "source_file", number: 2, type: 9, label: 1 }, { name: "begin", number: 3, type: 5, label: 1 }, { name: "end", number: 4, type: 5, label: 1 }, { name: "semantic", number: 5, type: 14, label: 1, typeName: ".google.protobuf.GeneratedCodeInfo.Annotation.Semantic" }], enumType: [{ name: "Semantic", value: [{ name: "NONE", number: 0 }, { name: "SET", number: 1 }, { name: "ALIAS", number: 2 }] }] }] }], enumType: [{ name: "Edition", value: [{ name: "EDITION_UNKNOWN", number: 0 }, { name: "EDITION_LEGACY", number: 900 }, { name: "EDITION_PROTO2", number: 998 }, { name: "EDITION_PROTO3", number: 999 }, { name: "EDITION_2023", number: 1e3 }, { name: "EDITION_2024", number: 1001 }, { name: "EDITION_UNSTABLE", number: 9999 }, { name: "EDITION_1_TEST_ONLY", number: 1 }, { name: "EDITION_2_TEST_ONLY", number: 2 }, { name: "EDITION_99997_TEST_ONLY", number: 99997 }, { name: "EDITION_99998_TEST_ONLY", number: 99998 }, { name: "EDITION_99999_TEST_ONLY", number: 99999 }, { name: "EDITION_MAX", number: 2147483647 }] }, { name: "SymbolVisibility", value: [{ name: "VISIBILITY_UNSET", number: 0 }, { name: "VISIBILITY_LOCAL", number: 1 }, { name: "VISIBILITY_EXPORT", number: 2 }] }] });
var FileDescriptorProtoSchema = /* @__PURE__ */ messageDesc(file_google_protobuf_descriptor, 1);
var ExtensionRangeOptions_VerificationState;
(function(ExtensionRangeOptions_VerificationState2) {
  ExtensionRangeOptions_VerificationState2[ExtensionRangeOptions_VerificationState2.DECLARATION = 0] = "DECLARATION", ExtensionRangeOptions_VerificationState2[ExtensionRangeOptions_VerificationState2.UNVERIFIED = 1] = "UNVERIFIED";
})(ExtensionRangeOptions_VerificationState || (ExtensionRangeOptions_VerificationState = {}));
var FieldDescriptorProto_Type;
(function(FieldDescriptorProto_Type2) {
  FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.DOUBLE = 1] = "DOUBLE", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.FLOAT = 2] = "FLOAT", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.INT64 = 3] = "INT64", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.UINT64 = 4] = "UINT64", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.INT32 = 5] = "INT32", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.FIXED64 = 6] = "FIXED64", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.FIXED32 = 7] = "FIXED32", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.BOOL = 8] = "BOOL", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.STRING = 9] = "STRING", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.GROUP = 10] = "GROUP", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.MESSAGE = 11] = "MESSAGE", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.BYTES = 12] = "BYTES", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.UINT32 = 13] = "UINT32", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.ENUM = 14] = "ENUM", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.SFIXED32 = 15] = "SFIXED32", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.SFIXED64 = 16] = "SFIXED64", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.SINT32 = 17] = "SINT32", FieldDescriptorProto_Type2[FieldDescriptorProto_Type2.SINT64 = 18] = "SINT64";
})(FieldDescriptorProto_Type || (FieldDescriptorProto_Type = {}));
var FieldDescriptorProto_Label;
(function(FieldDescriptorProto_Label2) {
  FieldDescriptorProto_Label2[FieldDescriptorProto_Label2.OPTIONAL = 1] = "OPTIONAL", FieldDescriptorProto_Label2[FieldDescriptorProto_Label2.REPEATED = 3] = "REPEATED", FieldDescriptorProto_Label2[FieldDescriptorProto_Label2.REQUIRED = 2] = "REQUIRED";
})(FieldDescriptorProto_Label || (FieldDescriptorProto_Label = {}));
var FileOptions_OptimizeMode;
(function(FileOptions_OptimizeMode2) {
  FileOptions_OptimizeMode2[FileOptions_OptimizeMode2.SPEED = 1] = "SPEED", FileOptions_OptimizeMode2[FileOptions_OptimizeMode2.CODE_SIZE = 2] = "CODE_SIZE", FileOptions_OptimizeMode2[FileOptions_OptimizeMode2.LITE_RUNTIME = 3] = "LITE_RUNTIME";
})(FileOptions_OptimizeMode || (FileOptions_OptimizeMode = {}));
var FieldOptions_CType;
(function(FieldOptions_CType2) {
  FieldOptions_CType2[FieldOptions_CType2.STRING = 0] = "STRING", FieldOptions_CType2[FieldOptions_CType2.CORD = 1] = "CORD", FieldOptions_CType2[FieldOptions_CType2.STRING_PIECE = 2] = "STRING_PIECE";
})(FieldOptions_CType || (FieldOptions_CType = {}));
var FieldOptions_JSType;
(function(FieldOptions_JSType2) {
  FieldOptions_JSType2[FieldOptions_JSType2.JS_NORMAL = 0] = "JS_NORMAL", FieldOptions_JSType2[FieldOptions_JSType2.JS_STRING = 1] = "JS_STRING", FieldOptions_JSType2[FieldOptions_JSType2.JS_NUMBER = 2] = "JS_NUMBER";
})(FieldOptions_JSType || (FieldOptions_JSType = {}));
var FieldOptions_OptionRetention;
(function(FieldOptions_OptionRetention2) {
  FieldOptions_OptionRetention2[FieldOptions_OptionRetention2.RETENTION_UNKNOWN = 0] = "RETENTION_UNKNOWN", FieldOptions_OptionRetention2[FieldOptions_OptionRetention2.RETENTION_RUNTIME = 1] = "RETENTION_RUNTIME", FieldOptions_OptionRetention2[FieldOptions_OptionRetention2.RETENTION_SOURCE = 2] = "RETENTION_SOURCE";
})(FieldOptions_OptionRetention || (FieldOptions_OptionRetention = {}));
var FieldOptions_OptionTargetType;
(function(FieldOptions_OptionTargetType2) {
  FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_UNKNOWN = 0] = "TARGET_TYPE_UNKNOWN", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_FILE = 1] = "TARGET_TYPE_FILE", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_EXTENSION_RANGE = 2] = "TARGET_TYPE_EXTENSION_RANGE", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_MESSAGE = 3] = "TARGET_TYPE_MESSAGE", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_FIELD = 4] = "TARGET_TYPE_FIELD", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_ONEOF = 5] = "TARGET_TYPE_ONEOF", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_ENUM = 6] = "TARGET_TYPE_ENUM", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_ENUM_ENTRY = 7] = "TARGET_TYPE_ENUM_ENTRY", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_SERVICE = 8] = "TARGET_TYPE_SERVICE", FieldOptions_OptionTargetType2[FieldOptions_OptionTargetType2.TARGET_TYPE_METHOD = 9] = "TARGET_TYPE_METHOD";
})(FieldOptions_OptionTargetType || (FieldOptions_OptionTargetType = {}));
var MethodOptions_IdempotencyLevel;
(function(MethodOptions_IdempotencyLevel2) {
  MethodOptions_IdempotencyLevel2[MethodOptions_IdempotencyLevel2.IDEMPOTENCY_UNKNOWN = 0] = "IDEMPOTENCY_UNKNOWN", MethodOptions_IdempotencyLevel2[MethodOptions_IdempotencyLevel2.NO_SIDE_EFFECTS = 1] = "NO_SIDE_EFFECTS", MethodOptions_IdempotencyLevel2[MethodOptions_IdempotencyLevel2.IDEMPOTENT = 2] = "IDEMPOTENT";
})(MethodOptions_IdempotencyLevel || (MethodOptions_IdempotencyLevel = {}));
var FeatureSet_VisibilityFeature_DefaultSymbolVisibility;
(function(FeatureSet_VisibilityFeature_DefaultSymbolVisibility2) {
  FeatureSet_VisibilityFeature_DefaultSymbolVisibility2[FeatureSet_VisibilityFeature_DefaultSymbolVisibility2.DEFAULT_SYMBOL_VISIBILITY_UNKNOWN = 0] = "DEFAULT_SYMBOL_VISIBILITY_UNKNOWN", FeatureSet_VisibilityFeature_DefaultSymbolVisibility2[FeatureSet_VisibilityFeature_DefaultSymbolVisibility2.EXPORT_ALL = 1] = "EXPORT_ALL", FeatureSet_VisibilityFeature_DefaultSymbolVisibility2[FeatureSet_VisibilityFeature_DefaultSymbolVisibility2.EXPORT_TOP_LEVEL = 2] = "EXPORT_TOP_LEVEL", FeatureSet_VisibilityFeature_DefaultSymbolVisibility2[FeatureSet_VisibilityFeature_DefaultSymbolVisibility2.LOCAL_ALL = 3] = "LOCAL_ALL", FeatureSet_VisibilityFeature_DefaultSymbolVisibility2[FeatureSet_VisibilityFeature_DefaultSymbolVisibility2.STRICT = 4] = "STRICT";
})(FeatureSet_VisibilityFeature_DefaultSymbolVisibility || (FeatureSet_VisibilityFeature_DefaultSymbolVisibility = {}));
var FeatureSet_FieldPresence;
(function(FeatureSet_FieldPresence2) {
  FeatureSet_FieldPresence2[FeatureSet_FieldPresence2.FIELD_PRESENCE_UNKNOWN = 0] = "FIELD_PRESENCE_UNKNOWN", FeatureSet_FieldPresence2[FeatureSet_FieldPresence2.EXPLICIT = 1] = "EXPLICIT", FeatureSet_FieldPresence2[FeatureSet_FieldPresence2.IMPLICIT = 2] = "IMPLICIT", FeatureSet_FieldPresence2[FeatureSet_FieldPresence2.LEGACY_REQUIRED = 3] = "LEGACY_REQUIRED";
})(FeatureSet_FieldPresence || (FeatureSet_FieldPresence = {}));
var FeatureSet_EnumType;
(function(FeatureSet_EnumType2) {
  FeatureSet_EnumType2[FeatureSet_EnumType2.ENUM_TYPE_UNKNOWN = 0] = "ENUM_TYPE_UNKNOWN", FeatureSet_EnumType2[FeatureSet_EnumType2.OPEN = 1] = "OPEN", FeatureSet_EnumType2[FeatureSet_EnumType2.CLOSED = 2] = "CLOSED";
})(FeatureSet_EnumType || (FeatureSet_EnumType = {}));
var FeatureSet_RepeatedFieldEncoding;
(function(FeatureSet_RepeatedFieldEncoding2) {
  FeatureSet_RepeatedFieldEncoding2[FeatureSet_RepeatedFieldEncoding2.REPEATED_FIELD_ENCODING_UNKNOWN = 0] = "REPEATED_FIELD_ENCODING_UNKNOWN", FeatureSet_RepeatedFieldEncoding2[FeatureSet_RepeatedFieldEncoding2.PACKED = 1] = "PACKED", FeatureSet_RepeatedFieldEncoding2[FeatureSet_RepeatedFieldEncoding2.EXPANDED = 2] = "EXPANDED";
})(FeatureSet_RepeatedFieldEncoding || (FeatureSet_RepeatedFieldEncoding = {}));
var FeatureSet_Utf8Validation;
(function(FeatureSet_Utf8Validation2) {
  FeatureSet_Utf8Validation2[FeatureSet_Utf8Validation2.UTF8_VALIDATION_UNKNOWN = 0] = "UTF8_VALIDATION_UNKNOWN", FeatureSet_Utf8Validation2[FeatureSet_Utf8Validation2.VERIFY = 2] = "VERIFY", FeatureSet_Utf8Validation2[FeatureSet_Utf8Validation2.NONE = 3] = "NONE";
})(FeatureSet_Utf8Validation || (FeatureSet_Utf8Validation = {}));
var FeatureSet_MessageEncoding;
(function(FeatureSet_MessageEncoding2) {
  FeatureSet_MessageEncoding2[FeatureSet_MessageEncoding2.MESSAGE_ENCODING_UNKNOWN = 0] = "MESSAGE_ENCODING_UNKNOWN", FeatureSet_MessageEncoding2[FeatureSet_MessageEncoding2.LENGTH_PREFIXED = 1] = "LENGTH_PREFIXED", FeatureSet_MessageEncoding2[FeatureSet_MessageEncoding2.DELIMITED = 2] = "DELIMITED";
})(FeatureSet_MessageEncoding || (FeatureSet_MessageEncoding = {}));
var FeatureSet_JsonFormat;
(function(FeatureSet_JsonFormat2) {
  FeatureSet_JsonFormat2[FeatureSet_JsonFormat2.JSON_FORMAT_UNKNOWN = 0] = "JSON_FORMAT_UNKNOWN", FeatureSet_JsonFormat2[FeatureSet_JsonFormat2.ALLOW = 1] = "ALLOW", FeatureSet_JsonFormat2[FeatureSet_JsonFormat2.LEGACY_BEST_EFFORT = 2] = "LEGACY_BEST_EFFORT";
})(FeatureSet_JsonFormat || (FeatureSet_JsonFormat = {}));
var FeatureSet_EnforceNamingStyle;
(function(FeatureSet_EnforceNamingStyle2) {
  FeatureSet_EnforceNamingStyle2[FeatureSet_EnforceNamingStyle2.ENFORCE_NAMING_STYLE_UNKNOWN = 0] = "ENFORCE_NAMING_STYLE_UNKNOWN", FeatureSet_EnforceNamingStyle2[FeatureSet_EnforceNamingStyle2.STYLE2024 = 1] = "STYLE2024", FeatureSet_EnforceNamingStyle2[FeatureSet_EnforceNamingStyle2.STYLE_LEGACY = 2] = "STYLE_LEGACY";
})(FeatureSet_EnforceNamingStyle || (FeatureSet_EnforceNamingStyle = {}));
var GeneratedCodeInfo_Annotation_Semantic;
(function(GeneratedCodeInfo_Annotation_Semantic2) {
  GeneratedCodeInfo_Annotation_Semantic2[GeneratedCodeInfo_Annotation_Semantic2.NONE = 0] = "NONE", GeneratedCodeInfo_Annotation_Semantic2[GeneratedCodeInfo_Annotation_Semantic2.SET = 1] = "SET", GeneratedCodeInfo_Annotation_Semantic2[GeneratedCodeInfo_Annotation_Semantic2.ALIAS = 2] = "ALIAS";
})(GeneratedCodeInfo_Annotation_Semantic || (GeneratedCodeInfo_Annotation_Semantic = {}));
var Edition;
(function(Edition2) {
  Edition2[Edition2.EDITION_UNKNOWN = 0] = "EDITION_UNKNOWN", Edition2[Edition2.EDITION_LEGACY = 900] = "EDITION_LEGACY", Edition2[Edition2.EDITION_PROTO2 = 998] = "EDITION_PROTO2", Edition2[Edition2.EDITION_PROTO3 = 999] = "EDITION_PROTO3", Edition2[Edition2.EDITION_2023 = 1e3] = "EDITION_2023", Edition2[Edition2.EDITION_2024 = 1001] = "EDITION_2024", Edition2[Edition2.EDITION_UNSTABLE = 9999] = "EDITION_UNSTABLE", Edition2[Edition2.EDITION_1_TEST_ONLY = 1] = "EDITION_1_TEST_ONLY", Edition2[Edition2.EDITION_2_TEST_ONLY = 2] = "EDITION_2_TEST_ONLY", Edition2[Edition2.EDITION_99997_TEST_ONLY = 99997] = "EDITION_99997_TEST_ONLY", Edition2[Edition2.EDITION_99998_TEST_ONLY = 99998] = "EDITION_99998_TEST_ONLY", Edition2[Edition2.EDITION_99999_TEST_ONLY = 99999] = "EDITION_99999_TEST_ONLY", Edition2[Edition2.EDITION_MAX = 2147483647] = "EDITION_MAX";
})(Edition || (Edition = {}));
var SymbolVisibility;
(function(SymbolVisibility2) {
  SymbolVisibility2[SymbolVisibility2.VISIBILITY_UNSET = 0] = "VISIBILITY_UNSET", SymbolVisibility2[SymbolVisibility2.VISIBILITY_LOCAL = 1] = "VISIBILITY_LOCAL", SymbolVisibility2[SymbolVisibility2.VISIBILITY_EXPORT = 2] = "VISIBILITY_EXPORT";
})(SymbolVisibility || (SymbolVisibility = {}));

// typescript/node_modules/@bufbuild/protobuf/dist/esm/from-binary.js
var readDefaults = {
  readUnknownFields: !0
};
function makeReadOptions(options) {
  return options ? Object.assign(Object.assign({}, readDefaults), options) : readDefaults;
}
function fromBinary(schema, bytes, options) {
  let msg = reflect(schema, void 0, !1);
  return readMessage(msg, new BinaryReader(bytes), makeReadOptions(options), !1, bytes.byteLength), msg.message;
}
function readMessage(message, reader, options, delimited, lengthOrDelimitedFieldNo) {
  var _a;
  let end = delimited ? reader.len : reader.pos + lengthOrDelimitedFieldNo, fieldNo, wireType, unknownFields = (_a = message.getUnknown()) !== null && _a !== void 0 ? _a : [];
  for (; reader.pos < end && ([fieldNo, wireType] = reader.tag(), !(delimited && wireType == WireType.EndGroup)); ) {
    let field = message.findNumber(fieldNo);
    if (!field) {
      let data = reader.skip(wireType, fieldNo);
      options.readUnknownFields && unknownFields.push({ no: fieldNo, wireType, data });
      continue;
    }
    readField(message, reader, field, wireType, options);
  }
  if (delimited && (wireType != WireType.EndGroup || fieldNo !== lengthOrDelimitedFieldNo))
    throw new Error("invalid end group tag");
  unknownFields.length > 0 && message.setUnknown(unknownFields);
}
function readField(message, reader, field, wireType, options) {
  var _a;
  switch (field.fieldKind) {
    case "scalar":
      message.set(field, readScalar(reader, field.scalar, field.utf8Validation));
      break;
    case "enum":
      let val = readScalar(reader, ScalarType.INT32);
      if (field.enum.open)
        message.set(field, val);
      else if (field.enum.values.some((v) => v.number === val))
        message.set(field, val);
      else if (options.readUnknownFields) {
        let bytes = [];
        varint32write(val, bytes);
        let unknownFields = (_a = message.getUnknown()) !== null && _a !== void 0 ? _a : [];
        unknownFields.push({
          no: field.number,
          wireType,
          data: new Uint8Array(bytes)
        }), message.setUnknown(unknownFields);
      }
      break;
    case "message":
      message.set(field, readMessageField(reader, options, field, message.get(field)));
      break;
    case "list":
      readListField(reader, wireType, message.get(field), options);
      break;
    case "map":
      readMapEntry(reader, message.get(field), options);
      break;
  }
}
function readMapEntry(reader, map, options) {
  let field = map.field(), key, val, len = reader.uint32(), end = reader.pos + len;
  for (; reader.pos < end; ) {
    let [fieldNo] = reader.tag();
    switch (fieldNo) {
      case 1:
        key = readScalar(reader, field.mapKey, field.utf8Validation);
        break;
      case 2:
        switch (field.mapKind) {
          case "scalar":
            val = readScalar(reader, field.scalar, field.utf8Validation);
            break;
          case "enum":
            val = reader.int32();
            break;
          case "message":
            val = readMessageField(reader, options, field);
            break;
        }
        break;
    }
  }
  if (key === void 0 && (key = scalarZeroValue(field.mapKey, !1)), val === void 0)
    switch (field.mapKind) {
      case "scalar":
        val = scalarZeroValue(field.scalar, !1);
        break;
      case "enum":
        val = field.enum.values[0].number;
        break;
      case "message":
        val = reflect(field.message, void 0, !1);
        break;
    }
  map.set(key, val);
}
function readListField(reader, wireType, list, options) {
  var _a;
  let field = list.field();
  if (field.listKind === "message") {
    list.add(readMessageField(reader, options, field));
    return;
  }
  let scalarType = (_a = field.scalar) !== null && _a !== void 0 ? _a : ScalarType.INT32;
  if (!(wireType == WireType.LengthDelimited && scalarType != ScalarType.STRING && scalarType != ScalarType.BYTES)) {
    list.add(readScalar(reader, scalarType, field.utf8Validation));
    return;
  }
  let e = reader.uint32() + reader.pos;
  for (; reader.pos < e; )
    list.add(readScalar(reader, scalarType, field.utf8Validation));
}
function readMessageField(reader, options, field, mergeMessage) {
  let delimited = field.delimitedEncoding, message = mergeMessage ?? reflect(field.message, void 0, !1);
  return readMessage(message, reader, options, delimited, delimited ? field.number : reader.uint32()), message;
}
function readScalar(reader, type, validateUtf8 = !1) {
  switch (type) {
    case ScalarType.STRING:
      return reader.string(validateUtf8);
    case ScalarType.BOOL:
      return reader.bool();
    case ScalarType.DOUBLE:
      return reader.double();
    case ScalarType.FLOAT:
      return reader.float();
    case ScalarType.INT32:
      return reader.int32();
    case ScalarType.INT64:
      return reader.int64();
    case ScalarType.UINT64:
      return reader.uint64();
    case ScalarType.FIXED64:
      return reader.fixed64();
    case ScalarType.BYTES:
      return reader.bytes();
    case ScalarType.FIXED32:
      return reader.fixed32();
    case ScalarType.SFIXED32:
      return reader.sfixed32();
    case ScalarType.SFIXED64:
      return reader.sfixed64();
    case ScalarType.SINT64:
      return reader.sint64();
    case ScalarType.UINT32:
      return reader.uint32();
    case ScalarType.SINT32:
      return reader.sint32();
  }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/codegenv2/file.js
function fileDesc(b64, imports) {
  var _a;
  let root = fromBinary(FileDescriptorProtoSchema, base64Decode(b64));
  return root.messageType.forEach(restoreJsonNames), root.dependency = (_a = imports?.map((f) => f.proto.name)) !== null && _a !== void 0 ? _a : [], createFileRegistry(root, (protoFileName) => imports?.find((f) => f.proto.name === protoFileName)).getFile(root.name);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wkt/gen/google/protobuf/any_pb.js
var file_google_protobuf_any = /* @__PURE__ */ fileDesc("Chlnb29nbGUvcHJvdG9idWYvYW55LnByb3RvEg9nb29nbGUucHJvdG9idWYiJgoDQW55EhAKCHR5cGVfdXJsGAEgASgJEg0KBXZhbHVlGAIgASgMQnYKE2NvbS5nb29nbGUucHJvdG9idWZCCEFueVByb3RvUAFaLGdvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL2FueXBiogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM"), AnySchema = /* @__PURE__ */ messageDesc(file_google_protobuf_any, 0);

// typescript/node_modules/@bufbuild/protobuf/dist/esm/to-binary.js
var LEGACY_REQUIRED2 = 3, writeDefaults = {
  writeUnknownFields: !0
};
function makeWriteOptions(options) {
  return options ? Object.assign(Object.assign({}, writeDefaults), options) : writeDefaults;
}
function toBinary(schema, message, options) {
  return writeFields(new BinaryWriter(), makeWriteOptions(options), reflect(schema, message)).finish();
}
function writeFields(writer, opts, msg) {
  var _a;
  for (let f of msg.sortedFields) {
    if (!msg.isSet(f)) {
      if (f.presence == LEGACY_REQUIRED2)
        throw new Error(`cannot encode ${f} to binary: required field not set`);
      continue;
    }
    writeField(writer, opts, msg, f);
  }
  if (opts.writeUnknownFields)
    for (let { no, wireType, data } of (_a = msg.getUnknown()) !== null && _a !== void 0 ? _a : [])
      writer.tag(no, wireType).raw(data);
  return writer;
}
function writeField(writer, opts, msg, field) {
  var _a;
  switch (field.fieldKind) {
    case "scalar":
    case "enum":
      writeScalar(writer, msg.desc.typeName, field.name, (_a = field.scalar) !== null && _a !== void 0 ? _a : ScalarType.INT32, field.number, msg.get(field));
      break;
    case "list":
      writeListField(writer, opts, field, msg.get(field));
      break;
    case "message":
      writeMessageField(writer, opts, field, msg.get(field));
      break;
    case "map":
      for (let [key, val] of msg.get(field))
        writeMapEntry(writer, opts, field, key, val);
      break;
  }
}
function writeScalar(writer, msgName, fieldName, scalarType, fieldNo, value) {
  writeScalarValue(writer.tag(fieldNo, writeTypeOfScalar(scalarType)), msgName, fieldName, scalarType, value);
}
function writeMessageField(writer, opts, field, message) {
  field.delimitedEncoding ? writeFields(writer.tag(field.number, WireType.StartGroup), opts, message).tag(field.number, WireType.EndGroup) : writeFields(writer.tag(field.number, WireType.LengthDelimited).fork(), opts, message).join();
}
function writeListField(writer, opts, field, list) {
  var _a;
  if (field.listKind == "message") {
    for (let item of list)
      writeMessageField(writer, opts, field, item);
    return;
  }
  let scalarType = (_a = field.scalar) !== null && _a !== void 0 ? _a : ScalarType.INT32;
  if (field.packed) {
    if (!list.size)
      return;
    writer.tag(field.number, WireType.LengthDelimited).fork();
    for (let item of list)
      writeScalarValue(writer, field.parent.typeName, field.name, scalarType, item);
    writer.join();
    return;
  }
  for (let item of list)
    writeScalar(writer, field.parent.typeName, field.name, scalarType, field.number, item);
}
function writeMapEntry(writer, opts, field, key, value) {
  var _a;
  switch (writer.tag(field.number, WireType.LengthDelimited).fork(), writeScalar(writer, field.parent.typeName, field.name, field.mapKey, 1, key), field.mapKind) {
    case "scalar":
    case "enum":
      writeScalar(writer, field.parent.typeName, field.name, (_a = field.scalar) !== null && _a !== void 0 ? _a : ScalarType.INT32, 2, value);
      break;
    case "message":
      writeFields(writer.tag(2, WireType.LengthDelimited).fork(), opts, value).join();
      break;
  }
  writer.join();
}
function writeScalarValue(writer, msgName, fieldName, type, value) {
  try {
    switch (type) {
      case ScalarType.STRING:
        writer.string(value);
        break;
      case ScalarType.BOOL:
        writer.bool(value);
        break;
      case ScalarType.DOUBLE:
        writer.double(value);
        break;
      case ScalarType.FLOAT:
        writer.float(value);
        break;
      case ScalarType.INT32:
        writer.int32(value);
        break;
      case ScalarType.INT64:
        writer.int64(value);
        break;
      case ScalarType.UINT64:
        writer.uint64(value);
        break;
      case ScalarType.FIXED64:
        writer.fixed64(value);
        break;
      case ScalarType.BYTES:
        writer.bytes(value);
        break;
      case ScalarType.FIXED32:
        writer.fixed32(value);
        break;
      case ScalarType.SFIXED32:
        writer.sfixed32(value);
        break;
      case ScalarType.SFIXED64:
        writer.sfixed64(value);
        break;
      case ScalarType.SINT64:
        writer.sint64(value);
        break;
      case ScalarType.UINT32:
        writer.uint32(value);
        break;
      case ScalarType.SINT32:
        writer.sint32(value);
        break;
    }
  } catch (e) {
    throw e instanceof Error ? new Error(`cannot encode field ${msgName}.${fieldName} to binary: ${e.message}`) : e;
  }
}
function writeTypeOfScalar(type) {
  switch (type) {
    case ScalarType.BYTES:
    case ScalarType.STRING:
      return WireType.LengthDelimited;
    case ScalarType.DOUBLE:
    case ScalarType.FIXED64:
    case ScalarType.SFIXED64:
      return WireType.Bit64;
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
    case ScalarType.FLOAT:
      return WireType.Bit32;
    default:
      return WireType.Varint;
  }
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wkt/any.js
function anyPack(schema, message, into) {
  let ret = !1;
  return into || (into = create(AnySchema), ret = !0), into.value = toBinary(schema, message), into.typeUrl = typeNameToUrl(message.$typeName), ret ? into : void 0;
}
function anyIs(any, descOrTypeName) {
  if (any.typeUrl === "")
    return !1;
  let want = typeof descOrTypeName == "string" ? descOrTypeName : descOrTypeName.typeName, got = typeUrlToName(any.typeUrl);
  return want === got;
}
function anyUnpack(any, registryOrMessageDesc) {
  if (any.typeUrl === "")
    return;
  let desc = registryOrMessageDesc.kind == "message" ? registryOrMessageDesc : registryOrMessageDesc.getMessage(typeUrlToName(any.typeUrl));
  if (!(!desc || !anyIs(any, desc)))
    return fromBinary(desc, any.value);
}
function typeNameToUrl(name) {
  return `type.googleapis.com/${name}`;
}
function typeUrlToName(url) {
  let slash = url.lastIndexOf("/"), name = slash >= 0 ? url.substring(slash + 1) : url;
  if (!name.length)
    throw new Error(`invalid type url: ${url}`);
  return name;
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/wkt/gen/google/protobuf/struct_pb.js
var file_google_protobuf_struct = /* @__PURE__ */ fileDesc("Chxnb29nbGUvcHJvdG9idWYvc3RydWN0LnByb3RvEg9nb29nbGUucHJvdG9idWYihAEKBlN0cnVjdBIzCgZmaWVsZHMYASADKAsyIy5nb29nbGUucHJvdG9idWYuU3RydWN0LkZpZWxkc0VudHJ5GkUKC0ZpZWxkc0VudHJ5EgsKA2tleRgBIAEoCRIlCgV2YWx1ZRgCIAEoCzIWLmdvb2dsZS5wcm90b2J1Zi5WYWx1ZToCOAEi6gEKBVZhbHVlEjAKCm51bGxfdmFsdWUYASABKA4yGi5nb29nbGUucHJvdG9idWYuTnVsbFZhbHVlSAASFgoMbnVtYmVyX3ZhbHVlGAIgASgBSAASFgoMc3RyaW5nX3ZhbHVlGAMgASgJSAASFAoKYm9vbF92YWx1ZRgEIAEoCEgAEi8KDHN0cnVjdF92YWx1ZRgFIAEoCzIXLmdvb2dsZS5wcm90b2J1Zi5TdHJ1Y3RIABIwCgpsaXN0X3ZhbHVlGAYgASgLMhouZ29vZ2xlLnByb3RvYnVmLkxpc3RWYWx1ZUgAQgYKBGtpbmQiMwoJTGlzdFZhbHVlEiYKBnZhbHVlcxgBIAMoCzIWLmdvb2dsZS5wcm90b2J1Zi5WYWx1ZSobCglOdWxsVmFsdWUSDgoKTlVMTF9WQUxVRRAAQn8KE2NvbS5nb29nbGUucHJvdG9idWZCC1N0cnVjdFByb3RvUAFaL2dvb2dsZS5nb2xhbmcub3JnL3Byb3RvYnVmL3R5cGVzL2tub3duL3N0cnVjdHBi+AEBogIDR1BCqgIeR29vZ2xlLlByb3RvYnVmLldlbGxLbm93blR5cGVzYgZwcm90bzM"), StructSchema = /* @__PURE__ */ messageDesc(file_google_protobuf_struct, 0), ValueSchema = /* @__PURE__ */ messageDesc(file_google_protobuf_struct, 1), ListValueSchema = /* @__PURE__ */ messageDesc(file_google_protobuf_struct, 2), NullValue;
(function(NullValue2) {
  NullValue2[NullValue2.NULL_VALUE = 0] = "NULL_VALUE";
})(NullValue || (NullValue = {}));

// typescript/node_modules/@bufbuild/protobuf/dist/esm/extensions.js
function getExtension(message, extension) {
  assertExtendee(extension, message);
  let ufs = filterUnknownFields(message.$unknown, extension), [container, field, get] = createExtensionContainer(extension);
  for (let uf of ufs)
    readField(container, new BinaryReader(uf.data), field, uf.wireType, {
      readUnknownFields: !0
    });
  return get();
}
function setExtension(message, extension, value) {
  var _a;
  assertExtendee(extension, message);
  let ufs = ((_a = message.$unknown) !== null && _a !== void 0 ? _a : []).filter((uf) => uf.no !== extension.number), [container, field] = createExtensionContainer(extension, value), writer = new BinaryWriter();
  writeField(writer, { writeUnknownFields: !0 }, container, field);
  let reader = new BinaryReader(writer.finish());
  for (; reader.pos < reader.len; ) {
    let [no, wireType] = reader.tag(), data = reader.skip(wireType, no);
    ufs.push({ no, wireType, data });
  }
  message.$unknown = ufs;
}
function filterUnknownFields(unknownFields, extension) {
  if (unknownFields === void 0)
    return [];
  if (extension.fieldKind === "enum" || extension.fieldKind === "scalar") {
    for (let i = unknownFields.length - 1; i >= 0; --i)
      if (unknownFields[i].no == extension.number)
        return [unknownFields[i]];
    return [];
  }
  return unknownFields.filter((uf) => uf.no === extension.number);
}
function createExtensionContainer(extension, value) {
  let localName = extension.typeName, field = Object.assign(Object.assign({}, extension), { kind: "field", parent: extension.extendee, localName }), desc = Object.assign(Object.assign({}, extension.extendee), { fields: [field], members: [field], oneofs: [] }), container = create(desc, value !== void 0 ? { [localName]: value } : void 0);
  return [
    reflect(desc, container),
    field,
    () => {
      let value2 = container[localName];
      if (value2 === void 0) {
        let desc2 = extension.message;
        return isWrapperDesc(desc2) ? scalarZeroValue(desc2.fields[0].scalar, desc2.fields[0].longAsString) : create(desc2);
      }
      return value2;
    }
  ];
}
function assertExtendee(extension, message) {
  if (extension.extendee.typeName != message.$typeName)
    throw new Error(`extension ${extension.typeName} can only be applied to message ${extension.extendee.typeName}`);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/to-json.js
var LEGACY_REQUIRED3 = 3, IMPLICIT4 = 2, jsonWriteDefaults = {
  alwaysEmitImplicit: !1,
  enumAsInteger: !1,
  useProtoFieldName: !1
};
function makeWriteOptions2(options) {
  return options ? Object.assign(Object.assign({}, jsonWriteDefaults), options) : jsonWriteDefaults;
}
function toJson(schema, message, options) {
  return reflectToJson(reflect(schema, message), makeWriteOptions2(options));
}
function toJsonString(schema, message, options) {
  var _a;
  let jsonValue = toJson(schema, message, options);
  return JSON.stringify(jsonValue, null, (_a = options?.prettySpaces) !== null && _a !== void 0 ? _a : 0);
}
function reflectToJson(msg, opts) {
  var _a;
  let wktJson = tryWktToJson(msg, opts);
  if (wktJson !== void 0)
    return wktJson;
  let json = {};
  for (let f of msg.sortedFields) {
    if (!msg.isSet(f)) {
      if (f.presence == LEGACY_REQUIRED3)
        throw new Error(`cannot encode ${f} to JSON: required field not set`);
      if (!opts.alwaysEmitImplicit || f.presence !== IMPLICIT4)
        continue;
    }
    let jsonValue = fieldToJson(f, msg.get(f), opts);
    jsonValue !== void 0 && (json[jsonName(f, opts)] = jsonValue);
  }
  if (opts.registry) {
    let tagSeen = /* @__PURE__ */ new Set();
    for (let { no } of (_a = msg.getUnknown()) !== null && _a !== void 0 ? _a : [])
      if (!tagSeen.has(no)) {
        tagSeen.add(no);
        let extension = opts.registry.getExtensionFor(msg.desc, no);
        if (!extension)
          continue;
        let value = getExtension(msg.message, extension), [container, field] = createExtensionContainer(extension, value), jsonValue = fieldToJson(field, container.get(field), opts);
        jsonValue !== void 0 && (json[extension.jsonName] = jsonValue);
      }
  }
  return json;
}
function fieldToJson(f, val, opts) {
  switch (f.fieldKind) {
    case "scalar":
      return scalarToJson(f, val);
    case "message":
      return reflectToJson(val, opts);
    case "enum":
      return enumToJsonInternal(f.enum, val, opts.enumAsInteger);
    case "list":
      return listToJson(val, opts);
    case "map":
      return mapToJson(val, opts);
  }
}
function mapToJson(map, opts) {
  let f = map.field(), jsonObj = {};
  switch (f.mapKind) {
    case "scalar":
      for (let [entryKey, entryValue] of map)
        jsonObj[entryKey] = scalarToJson(f, entryValue);
      break;
    case "message":
      for (let [entryKey, entryValue] of map)
        jsonObj[entryKey] = reflectToJson(entryValue, opts);
      break;
    case "enum":
      for (let [entryKey, entryValue] of map)
        jsonObj[entryKey] = enumToJsonInternal(f.enum, entryValue, opts.enumAsInteger);
      break;
  }
  return opts.alwaysEmitImplicit || map.size > 0 ? jsonObj : void 0;
}
function listToJson(list, opts) {
  let f = list.field(), jsonArr = [];
  switch (f.listKind) {
    case "scalar":
      for (let item of list)
        jsonArr.push(scalarToJson(f, item));
      break;
    case "enum":
      for (let item of list)
        jsonArr.push(enumToJsonInternal(f.enum, item, opts.enumAsInteger));
      break;
    case "message":
      for (let item of list)
        jsonArr.push(reflectToJson(item, opts));
      break;
  }
  return opts.alwaysEmitImplicit || jsonArr.length > 0 ? jsonArr : void 0;
}
function enumToJsonInternal(desc, value, enumAsInteger) {
  var _a;
  if (typeof value != "number")
    throw new Error(`cannot encode ${desc} to JSON: expected number, got ${formatVal(value)}`);
  if (desc.typeName == "google.protobuf.NullValue")
    return null;
  if (enumAsInteger)
    return value;
  let val = desc.value[value];
  return (_a = val?.name) !== null && _a !== void 0 ? _a : value;
}
function scalarToJson(field, value) {
  var _a, _b, _c, _d, _e, _f;
  switch (field.scalar) {
    // int32, fixed32, uint32: JSON value will be a decimal number. Either numbers or strings are accepted.
    case ScalarType.INT32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32:
    case ScalarType.FIXED32:
    case ScalarType.UINT32:
      if (typeof value != "number")
        throw new Error(`cannot encode ${field} to JSON: ${(_a = checkField(field, value)) === null || _a === void 0 ? void 0 : _a.message}`);
      return value;
    // float, double: JSON value will be a number or one of the special string values "NaN", "Infinity", and "-Infinity".
    // Either numbers or strings are accepted. Exponent notation is also accepted.
    case ScalarType.FLOAT:
    case ScalarType.DOUBLE:
      if (typeof value != "number")
        throw new Error(`cannot encode ${field} to JSON: ${(_b = checkField(field, value)) === null || _b === void 0 ? void 0 : _b.message}`);
      return Number.isNaN(value) ? "NaN" : value === Number.POSITIVE_INFINITY ? "Infinity" : value === Number.NEGATIVE_INFINITY ? "-Infinity" : value;
    // string:
    case ScalarType.STRING:
      if (typeof value != "string")
        throw new Error(`cannot encode ${field} to JSON: ${(_c = checkField(field, value)) === null || _c === void 0 ? void 0 : _c.message}`);
      return value;
    // bool:
    case ScalarType.BOOL:
      if (typeof value != "boolean")
        throw new Error(`cannot encode ${field} to JSON: ${(_d = checkField(field, value)) === null || _d === void 0 ? void 0 : _d.message}`);
      return value;
    // JSON value will be a decimal string. Either numbers or strings are accepted.
    case ScalarType.UINT64:
    case ScalarType.FIXED64:
    case ScalarType.INT64:
    case ScalarType.SFIXED64:
    case ScalarType.SINT64:
      if (typeof value == "bigint" || typeof value == "string" || typeof value == "number" && Number.isInteger(value))
        return value.toString();
      throw new Error(`cannot encode ${field} to JSON: ${(_e = checkField(field, value)) === null || _e === void 0 ? void 0 : _e.message}`);
    // bytes: JSON value will be the data encoded as a string using standard base64 encoding with paddings.
    // Either standard or URL-safe base64 encoding with/without paddings are accepted.
    case ScalarType.BYTES:
      if (value instanceof Uint8Array)
        return base64Encode(value);
      throw new Error(`cannot encode ${field} to JSON: ${(_f = checkField(field, value)) === null || _f === void 0 ? void 0 : _f.message}`);
  }
}
function jsonName(f, opts) {
  return opts.useProtoFieldName ? f.name : f.jsonName;
}
function tryWktToJson(msg, opts) {
  if (msg.desc.typeName.startsWith("google.protobuf."))
    switch (msg.desc.typeName) {
      case "google.protobuf.Any":
        return anyToJson(msg.message, opts);
      case "google.protobuf.Timestamp":
        return timestampToJson(msg.message);
      case "google.protobuf.Duration":
        return durationToJson(msg.message);
      case "google.protobuf.FieldMask":
        return fieldMaskToJson(msg.message);
      case "google.protobuf.Struct":
        return structToJson(msg.message);
      case "google.protobuf.Value":
        return valueToJson(msg.message);
      case "google.protobuf.ListValue":
        return listValueToJson(msg.message);
      default:
        if (isWrapperDesc(msg.desc)) {
          let valueField = msg.desc.fields[0];
          return scalarToJson(valueField, msg.get(valueField));
        }
        return;
    }
}
function anyToJson(val, opts) {
  if (val.typeUrl === "")
    return {};
  let { registry } = opts, message, desc;
  if (registry && (message = anyUnpack(val, registry), message && (desc = registry.getMessage(message.$typeName))), !desc || !message)
    throw new Error(`cannot encode message ${val.$typeName} to JSON: "${val.typeUrl}" is not in the type registry`);
  let reflected = reflect(desc, message), json = hasCustomJsonRepresentation(desc) ? { value: tryWktToJson(reflected, opts) } : reflectToJson(reflected, opts);
  return json["@type"] = val.typeUrl, json;
}
function durationToJson(val) {
  let seconds = Number(val.seconds), nanos = val.nanos;
  if (seconds > 315576e6 || seconds < -315576e6)
    throw new Error(`cannot encode message ${val.$typeName} to JSON: value out of range`);
  if (seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0)
    throw new Error(`cannot encode message ${val.$typeName} to JSON: nanos sign must match seconds sign`);
  let text2 = val.seconds.toString();
  if (nanos !== 0) {
    let nanosStr = Math.abs(nanos).toString();
    nanosStr = "0".repeat(9 - nanosStr.length) + nanosStr, nanosStr.substring(3) === "000000" ? nanosStr = nanosStr.substring(0, 3) : nanosStr.substring(6) === "000" && (nanosStr = nanosStr.substring(0, 6)), text2 += "." + nanosStr, nanos < 0 && seconds == 0 && (text2 = "-" + text2);
  }
  return text2 + "s";
}
function fieldMaskToJson(val) {
  return val.paths.map((p) => {
    if (protoSnakeCase(protoCamelCase(p)) !== p)
      throw new Error(`cannot encode message ${val.$typeName} to JSON: lowerCamelCase of path name "${p}" is irreversible`);
    return protoCamelCase(p);
  }).join(",");
}
function structToJson(val) {
  let json = {};
  for (let [k, v] of Object.entries(val.fields))
    json[k] = valueToJson(v);
  return json;
}
function valueToJson(val) {
  switch (val.kind.case) {
    case "nullValue":
      return null;
    case "numberValue":
      if (!Number.isFinite(val.kind.value))
        throw new Error(`${val.$typeName} cannot be NaN or Infinity`);
      return val.kind.value;
    case "boolValue":
      return val.kind.value;
    case "stringValue":
      return val.kind.value;
    case "structValue":
      return structToJson(val.kind.value);
    case "listValue":
      return listValueToJson(val.kind.value);
    default:
      throw new Error(`${val.$typeName} must have a value`);
  }
}
function listValueToJson(val) {
  return val.values.map(valueToJson);
}
function timestampToJson(val) {
  let ms = Number(val.seconds) * 1e3;
  if (ms < Date.parse("0001-01-01T00:00:00Z") || ms > Date.parse("9999-12-31T23:59:59Z"))
    throw new Error(`cannot encode message ${val.$typeName} to JSON: must be from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z inclusive`);
  if (val.nanos < 0)
    throw new Error(`cannot encode message ${val.$typeName} to JSON: nanos must not be negative`);
  if (val.nanos > 999999999)
    throw new Error(`cannot encode message ${val.$typeName} to JSON: nanos must not be greater than 99999999`);
  let z = "Z";
  if (val.nanos > 0) {
    let nanosStr = (val.nanos + 1e9).toString().substring(1);
    nanosStr.substring(3) === "000000" ? z = "." + nanosStr.substring(0, 3) + "Z" : nanosStr.substring(6) === "000" ? z = "." + nanosStr.substring(0, 6) + "Z" : z = "." + nanosStr + "Z";
  }
  return new Date(ms).toISOString().replace(".000Z", z);
}

// typescript/node_modules/@bufbuild/protobuf/dist/esm/from-json.js
var jsonReadDefaults = {
  ignoreUnknownFields: !1
};
function makeReadOptions2(options) {
  return options ? Object.assign(Object.assign({}, jsonReadDefaults), options) : jsonReadDefaults;
}
function fromJsonString(schema, json, options) {
  return fromJson(schema, parseJsonString(json, schema.typeName), options);
}
function fromJson(schema, json, options) {
  let msg = reflect(schema);
  try {
    readMessage2(msg, json, makeReadOptions2(options));
  } catch (e) {
    throw isFieldError(e) ? new Error(`cannot decode ${e.field()} from JSON: ${e.message}`, {
      cause: e
    }) : e;
  }
  return msg.message;
}
var messageJsonFields = /* @__PURE__ */ new WeakMap();
function getJsonField(desc, jsonKey) {
  var _a;
  if (!messageJsonFields.has(desc)) {
    let jsonNames = /* @__PURE__ */ new Map();
    for (let field of desc.fields)
      jsonNames.set(field.name, field).set(field.jsonName, field);
    messageJsonFields.set(desc, jsonNames);
  }
  return (_a = messageJsonFields.get(desc)) === null || _a === void 0 ? void 0 : _a.get(jsonKey);
}
function readMessage2(msg, json, opts) {
  var _a;
  if (tryWktFromJson(msg, json, opts))
    return;
  if (json == null || Array.isArray(json) || typeof json != "object")
    throw new Error(`cannot decode ${msg.desc} from JSON: ${formatVal(json)}`);
  let oneofSeen = /* @__PURE__ */ new Map();
  for (let [jsonKey, jsonValue] of Object.entries(json)) {
    let field = getJsonField(msg.desc, jsonKey);
    if (field) {
      if (field.oneof) {
        if (jsonValue === null && field.fieldKind == "scalar")
          continue;
        let seen = oneofSeen.get(field.oneof);
        if (seen !== void 0)
          throw new FieldError(field.oneof, `oneof set multiple times by ${seen.name} and ${field.name}`);
        oneofSeen.set(field.oneof, field);
      }
      readField2(msg, field, jsonValue, opts);
    } else {
      let extension;
      if (jsonKey.startsWith("[") && jsonKey.endsWith("]") && // biome-ignore lint/suspicious/noAssignInExpressions: no
      (extension = (_a = opts.registry) === null || _a === void 0 ? void 0 : _a.getExtension(jsonKey.substring(1, jsonKey.length - 1))) && extension.extendee.typeName === msg.desc.typeName) {
        let [container, field2, get] = createExtensionContainer(extension);
        readField2(container, field2, jsonValue, opts), setExtension(msg.message, extension, get());
      }
      if (!extension && !opts.ignoreUnknownFields)
        throw new Error(`cannot decode ${msg.desc} from JSON: key "${jsonKey}" is unknown`);
    }
  }
}
function readField2(msg, field, json, opts) {
  switch (field.fieldKind) {
    case "scalar":
      readScalarField(msg, field, json);
      break;
    case "enum":
      readEnumField(msg, field, json, opts);
      break;
    case "message":
      readMessageField2(msg, field, json, opts);
      break;
    case "list":
      readListField2(msg.get(field), json, opts);
      break;
    case "map":
      readMapField(msg.get(field), json, opts);
      break;
  }
}
function readListOrMapItem(field, json, opts) {
  if (field.scalar && json !== null)
    return scalarFromJson(field, json);
  if (field.message && !isResetSentinelNullValue(field, json)) {
    let msgValue = reflect(field.message);
    return readMessage2(msgValue, json, opts), msgValue;
  }
  if (field.enum && !isResetSentinelNullValue(field, json))
    return readEnum(field.enum, json, opts.ignoreUnknownFields);
  throw new FieldError(field, `${field.fieldKind === "list" ? "list item" : "map value"} must not be null`);
}
function readMapField(map, json, opts) {
  if (json === null)
    return;
  let field = map.field();
  if (typeof json != "object" || Array.isArray(json))
    throw new FieldError(field, "expected object, got " + formatVal(json));
  for (let [jsonMapKey, jsonMapValue] of Object.entries(json)) {
    let key = mapKeyFromJson(field.mapKey, jsonMapKey), value = readListOrMapItem(field, jsonMapValue, opts);
    value !== tokenIgnoredUnknownEnum && map.set(key, value);
  }
}
function readListField2(list, json, opts) {
  if (json === null)
    return;
  let field = list.field();
  if (!Array.isArray(json))
    throw new FieldError(field, "expected Array, got " + formatVal(json));
  for (let jsonItem of json) {
    let value = readListOrMapItem(field, jsonItem, opts);
    value !== tokenIgnoredUnknownEnum && list.add(value);
  }
}
function readMessageField2(msg, field, json, opts) {
  if (isResetSentinelNullValue(field, json)) {
    msg.clear(field);
    return;
  }
  let msgValue = msg.isSet(field) ? msg.get(field) : reflect(field.message);
  readMessage2(msgValue, json, opts), msg.set(field, msgValue);
}
function readEnumField(msg, field, json, opts) {
  if (isResetSentinelNullValue(field, json)) {
    msg.clear(field);
    return;
  }
  let enumValue = readEnum(field.enum, json, opts.ignoreUnknownFields);
  enumValue !== tokenIgnoredUnknownEnum && msg.set(field, enumValue);
}
function readScalarField(msg, field, json) {
  json === null ? msg.clear(field) : msg.set(field, scalarFromJson(field, json));
}
function isResetSentinelNullValue(field, json) {
  var _a, _b;
  return json === null && ((_a = field.message) === null || _a === void 0 ? void 0 : _a.typeName) != "google.protobuf.Value" && ((_b = field.enum) === null || _b === void 0 ? void 0 : _b.typeName) != "google.protobuf.NullValue";
}
var tokenIgnoredUnknownEnum = /* @__PURE__ */ Symbol();
function readEnum(desc, json, ignoreUnknownFields) {
  if (json === null)
    return desc.values[0].number;
  switch (typeof json) {
    case "number":
      if (Number.isInteger(json))
        return json;
      break;
    case "string":
      let value = desc.values.find((ev) => ev.name === json);
      if (value !== void 0)
        return value.number;
      if (ignoreUnknownFields)
        return tokenIgnoredUnknownEnum;
      break;
  }
  throw new Error(`cannot decode ${desc} from JSON: ${formatVal(json)}`);
}
function scalarFromJson(field, json) {
  switch (field.scalar) {
    // float, double: JSON value will be a number or one of the special string values "NaN", "Infinity", and "-Infinity".
    // Either numbers or strings are accepted. Exponent notation is also accepted.
    case ScalarType.DOUBLE:
    case ScalarType.FLOAT:
      if (json === "NaN")
        return NaN;
      if (json === "Infinity")
        return Number.POSITIVE_INFINITY;
      if (json === "-Infinity")
        return Number.NEGATIVE_INFINITY;
      if (typeof json == "number") {
        if (Number.isNaN(json))
          throw new FieldError(field, "unexpected NaN number");
        if (!Number.isFinite(json))
          throw new FieldError(field, "unexpected infinite number");
        break;
      }
      if (typeof json == "string") {
        if (json === "" || json.trim().length !== json.length)
          break;
        let float = Number(json);
        if (!Number.isFinite(float))
          break;
        return float;
      }
      break;
    // int32, fixed32, uint32: JSON value will be a decimal number. Either numbers or strings are accepted.
    case ScalarType.INT32:
    case ScalarType.FIXED32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32:
    case ScalarType.UINT32:
      return int32FromJson(json);
    // bytes: JSON value will be the data encoded as a string using standard base64 encoding with paddings.
    // Either standard or URL-safe base64 encoding with/without paddings are accepted.
    case ScalarType.BYTES:
      if (typeof json == "string") {
        if (json === "")
          return new Uint8Array(0);
        try {
          return base64Decode(json);
        } catch (e) {
          let message = e instanceof Error ? e.message : String(e);
          throw new FieldError(field, message);
        }
      }
      break;
  }
  return json;
}
function mapKeyFromJson(type, jsonString) {
  switch (type) {
    case ScalarType.BOOL:
      switch (jsonString) {
        case "true":
          return !0;
        case "false":
          return !1;
      }
      return jsonString;
    case ScalarType.INT32:
    case ScalarType.FIXED32:
    case ScalarType.UINT32:
    case ScalarType.SFIXED32:
    case ScalarType.SINT32:
      return int32FromJson(jsonString);
    default:
      return jsonString;
  }
}
function int32FromJson(json) {
  if (typeof json == "string") {
    if (json === "" || json.trim().length !== json.length)
      return json;
    let num2 = Number(json);
    return Number.isNaN(num2) ? json : num2;
  }
  return json;
}
function parseJsonString(jsonString, typeName) {
  try {
    return JSON.parse(jsonString);
  } catch (e) {
    let message = e instanceof Error ? e.message : String(e);
    throw new Error(
      `cannot decode message ${typeName} from JSON: ${message}`,
      // @ts-expect-error we use the ES2022 error CTOR option "cause" for better stack traces
      { cause: e }
    );
  }
}
function tryWktFromJson(msg, jsonValue, opts) {
  if (!msg.desc.typeName.startsWith("google.protobuf."))
    return !1;
  switch (msg.desc.typeName) {
    case "google.protobuf.Any":
      return anyFromJson(msg.message, jsonValue, opts), !0;
    case "google.protobuf.Timestamp":
      return timestampFromJson(msg.message, jsonValue), !0;
    case "google.protobuf.Duration":
      return durationFromJson(msg.message, jsonValue), !0;
    case "google.protobuf.FieldMask":
      return fieldMaskFromJson(msg.message, jsonValue), !0;
    case "google.protobuf.Struct":
      return structFromJson(msg.message, jsonValue), !0;
    case "google.protobuf.Value":
      return valueFromJson(msg.message, jsonValue), !0;
    case "google.protobuf.ListValue":
      return listValueFromJson(msg.message, jsonValue), !0;
    default:
      if (isWrapperDesc(msg.desc)) {
        let valueField = msg.desc.fields[0];
        return jsonValue === null ? msg.clear(valueField) : msg.set(valueField, scalarFromJson(valueField, jsonValue)), !0;
      }
      return !1;
  }
}
function anyFromJson(any, json, opts) {
  var _a;
  if (json === null || Array.isArray(json) || typeof json != "object")
    throw new Error(`cannot decode message ${any.$typeName} from JSON: expected object but got ${formatVal(json)}`);
  if (Object.keys(json).length == 0)
    return;
  let typeUrl = json["@type"];
  if (typeof typeUrl != "string" || typeUrl == "")
    throw new Error(`cannot decode message ${any.$typeName} from JSON: "@type" is empty`);
  let typeName = typeUrl.includes("/") ? typeUrl.substring(typeUrl.lastIndexOf("/") + 1) : typeUrl;
  if (!typeName.length)
    throw new Error(`cannot decode message ${any.$typeName} from JSON: "@type" is invalid`);
  let desc = (_a = opts.registry) === null || _a === void 0 ? void 0 : _a.getMessage(typeName);
  if (!desc)
    throw new Error(`cannot decode message ${any.$typeName} from JSON: ${typeUrl} is not in the type registry`);
  let msg = reflect(desc);
  if (hasCustomJsonRepresentation(desc) && Object.prototype.hasOwnProperty.call(json, "value")) {
    let value = json.value;
    readMessage2(msg, value, opts);
  } else {
    let copy = Object.assign({}, json);
    delete copy["@type"], readMessage2(msg, copy, opts);
  }
  anyPack(msg.desc, msg.message, any);
}
function timestampFromJson(timestamp, json) {
  if (typeof json != "string")
    throw new Error(`cannot decode message ${timestamp.$typeName} from JSON: ${formatVal(json)}`);
  let matches = json.match(/^([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:Z|([+-][0-9][0-9]:[0-9][0-9]))$/);
  if (!matches)
    throw new Error(`cannot decode message ${timestamp.$typeName} from JSON: invalid RFC 3339 string`);
  let ms = Date.parse(
    // biome-ignore format: want this to read well
    matches[1] + "-" + matches[2] + "-" + matches[3] + "T" + matches[4] + ":" + matches[5] + ":" + matches[6] + (matches[8] ? matches[8] : "Z")
  );
  if (Number.isNaN(ms))
    throw new Error(`cannot decode message ${timestamp.$typeName} from JSON: invalid RFC 3339 string`);
  if (ms < Date.parse("0001-01-01T00:00:00Z") || ms > Date.parse("9999-12-31T23:59:59Z"))
    throw new Error(`cannot decode message ${timestamp.$typeName} from JSON: must be from 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z inclusive`);
  timestamp.seconds = protoInt64.parse(ms / 1e3), timestamp.nanos = 0, matches[7] && (timestamp.nanos = parseInt("1" + matches[7] + "0".repeat(9 - matches[7].length)) - 1e9);
}
function durationFromJson(duration, json) {
  if (typeof json != "string")
    throw new Error(`cannot decode message ${duration.$typeName} from JSON: ${formatVal(json)}`);
  let match = json.match(/^(-?[0-9]+)(?:\.([0-9]+))?s/);
  if (match === null)
    throw new Error(`cannot decode message ${duration.$typeName} from JSON: ${formatVal(json)}`);
  let longSeconds = Number(match[1]);
  if (longSeconds > 315576e6 || longSeconds < -315576e6)
    throw new Error(`cannot decode message ${duration.$typeName} from JSON: ${formatVal(json)}`);
  if (duration.seconds = protoInt64.parse(longSeconds), typeof match[2] != "string")
    return;
  let nanosStr = match[2] + "0".repeat(9 - match[2].length);
  duration.nanos = parseInt(nanosStr), (longSeconds < 0 || Object.is(longSeconds, -0)) && (duration.nanos = -duration.nanos);
}
function fieldMaskFromJson(fieldMask, json) {
  if (typeof json != "string")
    throw new Error(`cannot decode message ${fieldMask.$typeName} from JSON: ${formatVal(json)}`);
  json !== "" && (fieldMask.paths = json.split(",").map((path) => {
    if (path.includes("_"))
      throw new Error(`cannot decode message ${fieldMask.$typeName} from JSON: path names must be lowerCamelCase`);
    return protoSnakeCase(path);
  }));
}
function structFromJson(struct, json) {
  if (typeof json != "object" || json == null || Array.isArray(json))
    throw new Error(`cannot decode message ${struct.$typeName} from JSON ${formatVal(json)}`);
  for (let [k, v] of Object.entries(json)) {
    let parsedV = create(ValueSchema);
    valueFromJson(parsedV, v), struct.fields[k] = parsedV;
  }
}
function valueFromJson(value, json) {
  switch (typeof json) {
    case "number":
      value.kind = { case: "numberValue", value: json };
      break;
    case "string":
      value.kind = { case: "stringValue", value: json };
      break;
    case "boolean":
      value.kind = { case: "boolValue", value: json };
      break;
    case "object":
      if (json === null)
        value.kind = { case: "nullValue", value: NullValue.NULL_VALUE };
      else if (Array.isArray(json)) {
        let listValue = create(ListValueSchema);
        listValueFromJson(listValue, json), value.kind = { case: "listValue", value: listValue };
      } else {
        let struct = create(StructSchema);
        structFromJson(struct, json), value.kind = { case: "structValue", value: struct };
      }
      break;
    default:
      throw new Error(`cannot decode message ${value.$typeName} from JSON ${formatVal(json)}`);
  }
  return value;
}
function listValueFromJson(listValue, json) {
  if (!Array.isArray(json))
    throw new Error(`cannot decode message ${listValue.$typeName} from JSON ${formatVal(json)}`);
  for (let e of json) {
    let value = create(ValueSchema);
    valueFromJson(value, e), listValue.values.push(value);
  }
}

// typescript/src/gen/lapwing/client_pb.ts
var file_lapwing_client = /* @__PURE__ */ fileDesc("ChRsYXB3aW5nL2NsaWVudC5wcm90bxIRbGFwd2luZy5jbGllbnQudjEimwMKC0NsaWVudEZyYW1lEgoKAmlkGAEgASgEEhMKC3RyYWNlcGFyZW50GAIgASgJEi0KB2Nvbm5lY3QYCiABKAsyGi5sYXB3aW5nLmNsaWVudC52MS5Db25uZWN0SAASLQoHcHVibGlzaBgLIAEoCzIaLmxhcHdpbmcuY2xpZW50LnYxLlB1Ymxpc2hIABIlCgNhY2sYDCABKAsyFi5sYXB3aW5nLmNsaWVudC52MS5BY2tIABInCgRyZWFkGA0gASgLMhcubGFwd2luZy5jbGllbnQudjEuUmVhZEgAEjQKB2hpc3RvcnkYDiABKAsyIS5sYXB3aW5nLmNsaWVudC52MS5IaXN0b3J5UmVxdWVzdEgAEicKBHN5bmMYDyABKAsyFy5sYXB3aW5nLmNsaWVudC52MS5TeW5jSAASLQoHcmVmcmVzaBgQIAEoCzIaLmxhcHdpbmcuY2xpZW50LnYxLlJlZnJlc2hIABInCgRwaW5nGBEgASgLMhcubGFwd2luZy5jbGllbnQudjEuUGluZ0gAQgYKBGJvZHkiZgoHQ29ubmVjdBINCgV0b2tlbhgBIAEoCRIOCgZkZXZpY2UYAiABKAkSKgoHY3Vyc29ycxgDIAMoCzIZLmxhcHdpbmcuY2xpZW50LnYxLkN1cnNvchIQCghyZWNlaXB0cxgEIAEoCCIrCgZDdXJzb3ISFAoMY29udmVyc2F0aW9uGAEgASgJEgsKA3NlcRgCIAEoBCK/AQoHUHVibGlzaBIWCgxjb252ZXJzYXRpb24YASABKAlIABIRCgd0b191c2VyGAIgASgJSAASEgoKY2xpZW50X21pZBgDIAEoCRIrCgdjb250ZW50GAQgASgLMhoubGFwd2luZy5jbGllbnQudjEuQ29udGVudBIPCgdhdHRlbXB0GAUgASgNEhwKFGZpcnN0X2F0dGVtcHRfYWdlX21zGAYgASgEEg8KB3JlY2VpcHQYByABKAhCCAoGdGFyZ2V0Ij8KB0NvbnRlbnQSDgoEdGV4dBgBIAEoCUgAEg4KBGRhdGEYAiABKAxIABIMCgR0eXBlGAMgASgJQgYKBGJvZHkiKAoDQWNrEhQKDGNvbnZlcnNhdGlvbhgBIAEoCRILCgNzZXEYAiABKAQiKQoEUmVhZBIUCgxjb252ZXJzYXRpb24YASABKAkSCwoDc2VxGAIgASgEIpIBCg5IaXN0b3J5UmVxdWVzdBIUCgxjb252ZXJzYXRpb24YASABKAkSEgoFYWZ0ZXIYAiABKARIAIgBARITCgZiZWZvcmUYAyABKARIAYgBARINCgVsaW1pdBgEIAEoDRIPCgdyZXZlcnNlGAUgASgIEgwKBHNlZW4YBiABKARCCAoGX2FmdGVyQgkKB19iZWZvcmUiKQoEU3luYxIUCgxjb252ZXJzYXRpb24YASABKAkSCwoDc2VxGAIgASgEIhgKB1JlZnJlc2gSDQoFdG9rZW4YASABKAkiBgoEUGluZyLdBAoLU2VydmVyRnJhbWUSCgoCaWQYASABKAQSKQoFZXJyb3IYCSABKAsyGC5sYXB3aW5nLmNsaWVudC52MS5FcnJvckgAEi0KB3dlbGNvbWUYCiABKAsyGi5sYXB3aW5nLmNsaWVudC52MS5XZWxjb21lSAASMQoJcHVibGlzaGVkGAsgASgLMhwubGFwd2luZy5jbGllbnQudjEuUHVibGlzaGVkSAASMQoHaGlzdG9yeRgOIAEoCzIeLmxhcHdpbmcuY2xpZW50LnYxLkhpc3RvcnlQYWdlSAASIwoCb2sYDyABKAsyFS5sYXB3aW5nLmNsaWVudC52MS5Pa0gAEisKBmV2ZW50cxgUIAEoCzIZLmxhcHdpbmcuY2xpZW50LnYxLkV2ZW50c0gAEiUKA2dhcBgVIAEoCzIWLmxhcHdpbmcuY2xpZW50LnYxLkdhcEgAEjAKBmN1cnNvchgWIAEoCzIeLmxhcHdpbmcuY2xpZW50LnYxLkN1cnNvck1vdmVkSAASMQoJcGVyc2lzdGVkGBcgASgLMhwubGFwd2luZy5jbGllbnQudjEuUGVyc2lzdGVkSAASNgoGam9pbmVkGBggASgLMiQubGFwd2luZy5jbGllbnQudjEuQ29udmVyc2F0aW9uU3RhdGVIABI5Cg1jb252ZXJzYXRpb25zGBkgASgLMiAubGFwd2luZy5jbGllbnQudjEuQ29udmVyc2F0aW9uc0gAEikKBW1vdmVkGBogASgLMhgubGFwd2luZy5jbGllbnQudjEuTW92ZWRIAEIGCgRib2R5IgQKAk9rIu4BCgdXZWxjb21lEg8KB3Nlc3Npb24YASABKAkSDAoEbm9kZRgCIAEoCRIMCgR1c2VyGAMgASgJEg4KBnRlbmFudBgEIAEoCRIWCg5zZXJ2ZXJfdGltZV9tcxgFIAEoBBIUCgxoZWFydGJlYXRfbXMYBiABKA0SKQoGbGltaXRzGAcgASgLMhkubGFwd2luZy5jbGllbnQudjEuTGltaXRzEjsKDWNvbnZlcnNhdGlvbnMYCCADKAsyJC5sYXB3aW5nLmNsaWVudC52MS5Db252ZXJzYXRpb25TdGF0ZRIQCghjb21wbGV0ZRgJIAEoCCJeCg1Db252ZXJzYXRpb25zEjsKDWNvbnZlcnNhdGlvbnMYASADKAsyJC5sYXB3aW5nLmNsaWVudC52MS5Db252ZXJzYXRpb25TdGF0ZRIQCghjb21wbGV0ZRgCIAEoCCJtCgZMaW1pdHMSFgoObWF4X2JvZHlfYnl0ZXMYASABKA0SFwoPbWF4X2ZyYW1lX2J5dGVzGAIgASgNEhgKEG1heF9oaXN0b3J5X3BhZ2UYAyABKA0SGAoQZGVkdXBlX3dpbmRvd19tcxgEIAEoBCL+AQoRQ29udmVyc2F0aW9uU3RhdGUSFAoMY29udmVyc2F0aW9uGAEgASgJEiUKBGtpbmQYAiABKA4yFy5sYXB3aW5nLmNsaWVudC52MS5LaW5kEgwKBGhlYWQYAyABKAQSCQoBbhgEIAEoBBIQCghmcm9tX3NlcRgFIAEoBBIQCghyZWFkX3NlcRgGIAEoBBIOCgZyZWFkX24YByABKAQSFQoNZGVsaXZlcmVkX3NlcRgIIAEoBBISCgpsaXZlX2FmdGVyGAkgASgEEiYKBGxhc3QYCiABKAsyGC5sYXB3aW5nLmNsaWVudC52MS5FdmVudBIMCgRwZWVyGAsgASgJIo4BCglQdWJsaXNoZWQSFAoMY29udmVyc2F0aW9uGAEgASgJEgsKA3NlcRgCIAEoBBISCgpjbGllbnRfbWlkGAMgASgJEisKB291dGNvbWUYBCABKA4yGi5sYXB3aW5nLmNsaWVudC52MS5PdXRjb21lEgkKAW4YBSABKAQSEgoKc2VudF9hdF9tcxgGIAEoBCLCBQoFRXZlbnQSFAoMY29udmVyc2F0aW9uGAEgASgJEgsKA3NlcRgCIAEoBBIJCgFuGAMgASgEEg4KBnNlbmRlchgEIAEoCRIOCgZkZXZpY2UYBSABKAkSEgoKY2xpZW50X21pZBgGIAEoCRISCgpzZW50X2F0X21zGAcgASgEEhMKC3RyYWNlcGFyZW50GAggASgJEi0KB21lc3NhZ2UYFCABKAsyGi5sYXB3aW5nLmNsaWVudC52MS5Db250ZW50SAASLQoHY3JlYXRlZBgVIAEoCzIaLmxhcHdpbmcuY2xpZW50LnYxLkNyZWF0ZWRIABI4Cg1tZW1iZXJzX2FkZGVkGBYgASgLMh8ubGFwd2luZy5jbGllbnQudjEuTWVtYmVyc0FkZGVkSAASPAoPbWVtYmVyc19yZW1vdmVkGBcgASgLMiEubGFwd2luZy5jbGllbnQudjEuTWVtYmVyc1JlbW92ZWRIABIrCgZlZGl0ZWQYGCABKAsyGS5sYXB3aW5nLmNsaWVudC52MS5FZGl0ZWRIABIvCghyZWNhbGxlZBgZIAEoCzIbLmxhcHdpbmcuY2xpZW50LnYxLlJlY2FsbGVkSAASLwoIcmVhY3Rpb24YGiABKAsyGy5sYXB3aW5nLmNsaWVudC52MS5SZWFjdGlvbkgAEjYKDHJvbGVfY2hhbmdlZBgbIAEoCzIeLmxhcHdpbmcuY2xpZW50LnYxLlJvbGVDaGFuZ2VkSAASKQoFbXV0ZWQYHCABKAsyGC5sYXB3aW5nLmNsaWVudC52MS5NdXRlZEgAEi0KB2Jsb2NrZWQYHSABKAsyGi5sYXB3aW5nLmNsaWVudC52MS5CbG9ja2VkSAASLwoIc2V0dGluZ3MYHiABKAsyGy5sYXB3aW5nLmNsaWVudC52MS5TZXR0aW5nc0gAQgYKBGJvZHkilAEKB0NyZWF0ZWQSJQoEa2luZBgBIAEoDjIXLmxhcHdpbmcuY2xpZW50LnYxLktpbmQSDAoEbmFtZRgCIAEoCRItCghzZXR0aW5ncxgDIAEoCzIbLmxhcHdpbmcuY2xpZW50LnYxLlNldHRpbmdzEg8KB21lbWJlcnMYBCADKAkSFAoMbWVtYmVyX2NvdW50GAUgASgNIisKDE1lbWJlcnNBZGRlZBINCgV1c2VycxgBIAMoCRIMCgRyb2xlGAIgASgJIh8KDk1lbWJlcnNSZW1vdmVkEg0KBXVzZXJzGAEgAygJIkIKBkVkaXRlZBILCgNzZXEYASABKAQSKwoHY29udGVudBgCIAEoCzIaLmxhcHdpbmcuY2xpZW50LnYxLkNvbnRlbnQiFwoIUmVjYWxsZWQSCwoDc2VxGAEgASgEIjoKCFJlYWN0aW9uEgsKA3NlcRgBIAEoBBIQCghyZWFjdGlvbhgCIAEoCRIPCgdyZW1vdmVkGAMgASgIIikKC1JvbGVDaGFuZ2VkEgwKBHVzZXIYASABKAkSDAoEcm9sZRgCIAEoCSInCgVNdXRlZBIMCgR1c2VyGAEgASgJEhAKCHVudGlsX21zGAIgASgEIiYKB0Jsb2NrZWQSCgoCYnkYASABKAkSDwoHYmxvY2tlZBgCIAEoCCKiAQoIU2V0dGluZ3MSHwoXaGlzdG9yeV9mb3JfbmV3X21lbWJlcnMYASABKAgSDQoFdGl0bGUYAiABKAkSNwoGY3VzdG9tGAMgAygLMicubGFwd2luZy5jbGllbnQudjEuU2V0dGluZ3MuQ3VzdG9tRW50cnkaLQoLQ3VzdG9tRW50cnkSCwoDa2V5GAEgASgJEg0KBXZhbHVlGAIgASgJOgI4ASIyCgZFdmVudHMSKAoGZXZlbnRzGAEgAygLMhgubGFwd2luZy5jbGllbnQudjEuRXZlbnQiYwoDR2FwEhQKDGNvbnZlcnNhdGlvbhgBIAEoCRIMCgRmcm9tGAIgASgEEgoKAnRvGAMgASgEEiwKBnJlYXNvbhgEIAEoDjIcLmxhcHdpbmcuY2xpZW50LnYxLkdhcFJlYXNvbiJqCgtDdXJzb3JNb3ZlZBIUCgxjb252ZXJzYXRpb24YASABKAkSDAoEdXNlchgCIAEoCRIQCghyZWFkX3NlcRgDIAEoBBIOCgZyZWFkX24YBCABKAQSFQoNZGVsaXZlcmVkX3NlcRgFIAEoBCJdCglQZXJzaXN0ZWQSFAoMY29udmVyc2F0aW9uGAEgASgJEhUKDXBlcnNpc3RlZF9zZXEYAiABKAQSDAoEc2VxcxgDIAMoBBIVCg1kZWFkX2xldHRlcmVkGAQgAygEIsMBCgtIaXN0b3J5UGFnZRIUCgxjb252ZXJzYXRpb24YASABKAkSKAoGZXZlbnRzGAIgAygLMhgubGFwd2luZy5jbGllbnQudjEuRXZlbnQSDAoEaGVhZBgDIAEoBBIJCgFuGAQgASgEEhUKDXBlcnNpc3RlZF9zZXEYBSABKAQSDAoEbW9yZRgGIAEoCBIkCgRnYXBzGAcgAygLMhYubGFwd2luZy5jbGllbnQudjEuR2FwEhAKCGZyb21fc2VxGAggASgEIicKBU1vdmVkEgsKA3VybBgBIAEoCRIRCgl3aXRoaW5fbXMYAiABKA0iqQEKBUVycm9yEgwKBGNvZGUYASABKA0SDAoEbmFtZRgCIAEoCRInCgVjbGFzcxgDIAEoDjIYLmxhcHdpbmcuY2xpZW50LnYxLkNsYXNzEhEKCXRlbXBvcmFyeRgEIAEoCBIWCg5yZXRyeV9hZnRlcl9tcxgFIAEoDRIPCgdtZXNzYWdlGAYgASgJEg0KBWNhdXNlGAcgASgJEhAKCHRyYWNlX2lkGAggASgJKksKBEtpbmQSFAoQS0lORF9VTlNQRUNJRklFRBAAEgwKCEtJTkRfUDJQEAESDgoKS0lORF9HUk9VUBACEg8KC0tJTkRfU1lTVEVNEAMqTwoHT3V0Y29tZRIXChNPVVRDT01FX1VOU1BFQ0lGSUVEEAASFAoQT1VUQ09NRV9BQ0NFUFRFRBABEhUKEU9VVENPTUVfRFVQTElDQVRFEAIqdQoJR2FwUmVhc29uEhoKFkdBUF9SRUFTT05fVU5TUEVDSUZJRUQQABIYChRHQVBfUkVBU09OX1JFVEVOVElPThABEhkKFUdBUF9SRUFTT05fTk9UX01FTUJFUhACEhcKE0dBUF9SRUFTT05fVE9PX01BTlkQAypVCgVDbGFzcxIVChFDTEFTU19VTlNQRUNJRklFRBAAEhIKDkNMQVNTX1JFSkVDVEVEEAESDgoKQ0xBU1NfT1BFThACEhEKDUNMQVNTX1VOS05PV04QA2IGcHJvdG8z"), ClientFrameSchema = /* @__PURE__ */ messageDesc(file_lapwing_client, 0);
var ServerFrameSchema = /* @__PURE__ */ messageDesc(file_lapwing_client, 11);

// typescript/src/codec.ts
function encode(schema, init, subprotocol) {
  let frame = create(schema, init);
  return subprotocol === "lapwing.v1.json" ? toJsonString(schema, frame) : toBinary(schema, frame);
}
function text(wire) {
  return typeof wire == "string" ? wire : new TextDecoder("utf-8", { fatal: !0 }).decode(wire);
}
function encodeClientFrame(init, subprotocol) {
  return encode(ClientFrameSchema, init, subprotocol);
}
function decodeServerFrame(wire, subprotocol) {
  if (subprotocol === "lapwing.v1.json") return fromJsonString(ServerFrameSchema, text(wire), { ignoreUnknownFields: !0 });
  if (typeof wire == "string") throw new Error("a text frame where the subprotocol is binary");
  return fromBinary(ServerFrameSchema, wire);
}

// typescript/src/errors.ts
var SdkError = class extends Error {
  step;
  /** The server that was spoken to, without its token. */
  address;
  /** HTTP-like code of an error answer, a WebSocket close code, or 0 when nothing answered. */
  code;
  /** `overloaded`, `forbidden`, … or the SDK's own word. */
  codeName;
  outcomeClass;
  temporary;
  retryAfterMs;
  /** The server's `cause`. */
  reason;
  /** 32 hex digits, to be given to whoever runs the service. */
  traceId;
  constructor(init) {
    let where = init.address ? ` at ${init.address}` : "", code = init.code ? ` ${init.code}` : "", name = init.name ? ` ${init.name}` : "", trace = init.traceId ? ` (trace ${init.traceId})` : "";
    super(`${init.step}${where}:${code}${name}: ${init.message}${trace}`, init.cause === void 0 ? void 0 : { cause: init.cause }), this.name = "SdkError", this.step = init.step, this.address = init.address ?? "", this.code = init.code ?? 0, this.codeName = init.name ?? "", this.outcomeClass = init.outcomeClass, this.temporary = init.temporary ?? !1, this.retryAfterMs = init.retryAfterMs ?? 0, this.reason = init.reason ?? "", this.traceId = init.traceId ?? "";
  }
  /** True when a server answered; false when the answer is missing (socket closed, time-out). */
  get answered() {
    return this.outcomeClass !== void 0;
  }
}, CLOSE_NAMES = {
  1e3: "normal",
  1001: "going_away",
  1002: "protocol_error",
  1005: "no_status",
  1006: "abnormal",
  1007: "invalid_payload",
  1009: "message_too_big",
  4e3: "going_away",
  4001: "slow_consumer",
  4002: "heartbeat_lost",
  4003: "not_ready",
  4500: "session_replaced",
  4501: "unauthenticated",
  4502: "protocol_error",
  4503: "tenant_suspended"
};
function closeName(code) {
  return CLOSE_NAMES[code] ?? "closed";
}
function reconnects(code) {
  return code < 4500 || code > 4999;
}

// typescript/src/convert.ts
function num(value) {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`${value} is beyond the safe integers`);
  return Number(value);
}
var KINDS = {
  0: "unspecified",
  1: "p2p",
  2: "group",
  3: "system"
}, GAP_REASONS = {
  0: "unspecified",
  1: "retention",
  2: "notMember",
  3: "tooMany"
};
function contentOf(content) {
  if (!content) return;
  let type = content.type ? { type: content.type } : {};
  return content.body.case === "data" ? { data: content.body.value, ...type } : { text: content.body.case === "text" ? content.body.value : "", ...type };
}
function settingsOf(settings) {
  return { historyForNewMembers: settings.historyForNewMembers, title: settings.title, custom: { ...settings.custom } };
}
function bodyOf(body) {
  switch (body.case) {
    case "message":
      return { case: "message", content: contentOf(body.value) ?? { text: "" } };
    case "created": {
      let { kind, name, members, memberCount, settings } = body.value, created = { case: "created", kind: KINDS[kind] ?? "unspecified", name, members, memberCount };
      return settings ? { ...created, settings: settingsOf(settings) } : created;
    }
    case "membersAdded":
      return { case: "membersAdded", users: body.value.users, role: body.value.role };
    case "membersRemoved":
      return { case: "membersRemoved", users: body.value.users };
    case "edited": {
      let content = contentOf(body.value.content);
      return content ? { case: "edited", seq: num(body.value.seq), content } : { case: "edited", seq: num(body.value.seq) };
    }
    case "recalled":
      return { case: "recalled", seq: num(body.value.seq) };
    case "reaction":
      return { case: "reaction", seq: num(body.value.seq), reaction: body.value.reaction, removed: body.value.removed };
    case "roleChanged":
      return { case: "roleChanged", user: body.value.user, role: body.value.role };
    case "muted":
      return { case: "muted", user: body.value.user, untilMs: num(body.value.untilMs) };
    case "blocked":
      return { case: "blocked", by: body.value.by, blocked: body.value.blocked };
    case "settings":
      return { case: "settings", settings: settingsOf(body.value) };
    case void 0:
      return { case: "unsupported" };
  }
}
function eventOf(event) {
  return {
    conversation: event.conversation,
    seq: num(event.seq),
    n: num(event.n),
    sender: event.sender,
    device: event.device,
    clientMid: event.clientMid,
    sentAtMs: num(event.sentAtMs),
    traceparent: event.traceparent,
    body: bodyOf(event.body)
  };
}
function stateOf(state) {
  return {
    conversation: state.conversation,
    kind: KINDS[state.kind] ?? "unspecified",
    head: num(state.head),
    n: num(state.n),
    fromSeq: num(state.fromSeq),
    readSeq: num(state.readSeq),
    readN: num(state.readN),
    deliveredSeq: num(state.deliveredSeq),
    liveAfter: num(state.liveAfter),
    ...state.last ? { last: eventOf(state.last) } : {},
    peer: state.peer
  };
}
function welcomeOf(welcome) {
  return {
    session: welcome.session,
    node: welcome.node,
    user: welcome.user,
    tenant: welcome.tenant,
    serverTimeMs: num(welcome.serverTimeMs),
    heartbeatMs: welcome.heartbeatMs || 25e3,
    limits: {
      maxBodyBytes: welcome.limits?.maxBodyBytes ?? 0,
      maxFrameBytes: welcome.limits?.maxFrameBytes ?? 0,
      maxHistoryPage: welcome.limits?.maxHistoryPage || 500,
      dedupeWindowMs: num(welcome.limits?.dedupeWindowMs ?? 0n) || 2 * 36e5
    }
  };
}
function gapOf(gap) {
  return { conversation: gap.conversation, from: num(gap.from), to: num(gap.to), reason: GAP_REASONS[gap.reason] ?? "unspecified" };
}
function pageOf(page) {
  return {
    conversation: page.conversation,
    events: page.events.map(eventOf),
    head: num(page.head),
    n: num(page.n),
    persistedSeq: num(page.persistedSeq),
    more: page.more,
    gaps: page.gaps.map(gapOf),
    fromSeq: num(page.fromSeq)
  };
}
function cursorMovedOf(cursor) {
  return {
    conversation: cursor.conversation,
    user: cursor.user,
    readSeq: num(cursor.readSeq),
    readN: num(cursor.readN),
    deliveredSeq: num(cursor.deliveredSeq)
  };
}
function persistedOf(persisted) {
  return {
    conversation: persisted.conversation,
    persistedSeq: num(persisted.persistedSeq),
    seqs: persisted.seqs.map(num),
    deadLettered: persisted.deadLettered.map(num)
  };
}
var CLASSES = {
  1: "rejected",
  2: "open",
  3: "unknown"
};
function classOfCode(code) {
  return [400, 403, 404, 409, 413].includes(code) ? "rejected" : [401, 429, 502, 503].includes(code) ? "open" : "unknown";
}
function errorOf(error, step, address) {
  return new SdkError({
    step,
    address,
    code: error.code,
    name: error.name,
    message: error.message || "the server gave no message",
    outcomeClass: CLASSES[error.class] ?? classOfCode(error.code),
    temporary: error.temporary,
    retryAfterMs: error.retryAfterMs,
    reason: error.cause,
    traceId: error.traceId
  });
}

// typescript/src/connection.ts
var OPEN2 = 1, Connection = class _Connection {
  constructor(socket, options) {
    this.socket = socket;
    this.options = options;
    this.closed = new Promise((resolve) => {
      this.end = resolve;
    }), socket.onmessage = (event) => this.receive(event.data), socket.onclose = (event) => this.finish(event.code, event.reason), socket.onerror = () => {
    };
  }
  socket;
  options;
  /** Resolves with the reason: `code` is the close code. */
  closed;
  end;
  ended = !1;
  nextId = 1n;
  waiting = /* @__PURE__ */ new Map();
  pushes = [];
  push;
  lastError;
  heartbeat;
  silentPeriods = 0;
  static open(options) {
    let { address, subprotocol } = options;
    return new Promise((resolve, reject) => {
      let socket = new options.socket(address, [subprotocol]);
      socket.binaryType = "arraybuffer";
      let message = "", timer = setTimeout(() => settle("dial", `no answer within ${options.dialTimeoutMs} ms`), options.dialTimeoutMs), detach = () => {
        clearTimeout(timer), options.signal.removeEventListener("abort", aborted), socket.onopen = socket.onclose = null, socket.onerror = () => {
        };
      }, settle = (step, text2, code = 0) => {
        detach(), reject(new SdkError({ step, address, code, message: text2, temporary: !0 })), socket.close();
      }, aborted = () => settle("dial", "given up by the application");
      options.signal.addEventListener("abort", aborted), socket.onopen = () => {
        if (socket.protocol !== subprotocol) return settle("upgrade", `the server chose subprotocol "${socket.protocol}"`);
        detach(), resolve(new _Connection(socket, options));
      }, socket.onerror = (event) => {
        message = event.message ?? "";
      }, socket.onclose = () => {
        let status = /Unexpected server response: (\d+)/.exec(message);
        status ? settle("upgrade", message, Number(status[1])) : /subprotocol/i.test(message) ? settle("upgrade", message) : message ? settle("dial", message) : reachable(address).then((yes) => settle(yes ? "upgrade" : "dial", yes ? "the server refused the WebSocket" : "not reachable, or the WebSocket was refused"));
      };
    });
  }
  get address() {
    return this.options.address;
  }
  get alive() {
    return !this.ended;
  }
  /** Hands over the pushes, those that came already first. */
  start(push, heartbeatMs) {
    this.push = push;
    let early = this.pushes;
    this.pushes = [], early.forEach(push), !this.ended && (this.heartbeat = setInterval(() => this.beat(), heartbeatMs));
  }
  /** Sends and waits for the answer. Fails with the server's error, or with one that is not `answered`. */
  request(body, step, timeoutMs) {
    return new Promise((resolve, reject) => {
      let id = this.nextId, timer = setTimeout(() => {
        this.waiting.delete(id), reject(this.failure(step, 0, "no_answer", `no answer within ${timeoutMs} ms`));
      }, timeoutMs);
      this.waiting.set(id, { step, resolve, reject, timer }), !this.post(body) && (clearTimeout(timer), this.waiting.delete(id), reject(this.failure(step, 0, "not_sent", "the connection is closed")));
    });
  }
  /** Sends without waiting; false if the connection is gone. */
  post(body) {
    if (this.ended || this.socket.readyState !== OPEN2) return !1;
    let id = this.nextId;
    this.nextId += 1n;
    let traceparent = this.options.traceparent?.() ?? "";
    return this.socket.send(encodeClientFrame({ id, traceparent, body }, this.options.subprotocol)), !0;
  }
  /** Ends it from this side, at once: a dead network would hold the closing handshake for minutes. */
  close(code, reason) {
    this.ended || (this.socket.close(code, reason), this.finish(code, reason));
  }
  receive(data) {
    if (this.ended) return;
    this.silentPeriods = 0;
    let frame;
    try {
      let wire = typeof data == "string" ? data : new Uint8Array(data);
      frame = decodeServerFrame(wire, this.options.subprotocol);
    } catch (cause) {
      this.lastError = new SdkError({ step: "connection", address: this.address, message: "a frame that cannot be read", cause }), this.close(4002, "unreadable frame");
      return;
    }
    let waiting = frame.id === 0n ? void 0 : this.waiting.get(frame.id);
    waiting ? (this.waiting.delete(frame.id), clearTimeout(waiting.timer), frame.body.case === "error" ? waiting.reject(errorOf(frame.body.value, waiting.step, this.address)) : waiting.resolve(frame.body)) : frame.body.case === "error" ? (this.lastError = errorOf(frame.body.value, "connection", this.address), this.deliver(frame.body)) : frame.id === 0n && this.deliver(frame.body);
  }
  deliver(body) {
    this.push ? this.push(body) : this.pushes.push(body);
  }
  beat() {
    if (this.silentPeriods >= 2) return this.close(4002, "heartbeat lost");
    this.silentPeriods += 1, this.post({ case: "ping", value: {} });
  }
  finish(code, reason) {
    if (this.ended) return;
    this.ended = !0, clearInterval(this.heartbeat), this.socket.onmessage = this.socket.onclose = null;
    for (let { step, reject, timer } of this.waiting.values())
      clearTimeout(timer), reject(this.failure(step, code, "no_answer", `the connection closed (${code} ${closeName(code)}) before the answer`));
    this.waiting.clear();
    let detail = this.lastError ? `: ${this.lastError.message}` : "", error = this.failure("connection", code, closeName(code), `closed ${code} ${reason || closeName(code)}${detail}`);
    this.end(error);
  }
  failure(step, code, name, message) {
    let traceId = this.lastError?.traceId ?? "";
    return new SdkError({ step, address: this.address, code, name, message, temporary: !0, traceId });
  }
};
async function reachable(address) {
  let url = new URL("/", address);
  if (url.protocol = url.protocol.replace(/^ws/, "http"), typeof location < "u" && location.origin !== url.origin) return !1;
  try {
    return await fetch(url, { method: "HEAD", signal: AbortSignal.timeout(2e3) }), !0;
  } catch {
    return !1;
  }
}

// typescript/src/cursors.ts
var CursorBatch = class {
  constructor(send, periodMs = 1e3, maxEvents = 100) {
    this.send = send;
    this.periodMs = periodMs;
    this.maxEvents = maxEvents;
  }
  send;
  periodMs;
  maxEvents;
  dirty = /* @__PURE__ */ new Map();
  sent = /* @__PURE__ */ new Map();
  count = 0;
  timer;
  move(conversation, seq, events = 1) {
    seq <= (this.dirty.get(conversation) ?? this.sent.get(conversation) ?? 0) || (this.dirty.set(conversation, seq), this.count += events, this.count >= this.maxEvents ? this.flush() : this.timer ??= setTimeout(() => this.flush(), this.periodMs));
  }
  /** What cannot be sent now stays, and goes out at the next flush. */
  flush() {
    clearTimeout(this.timer), this.timer = void 0, this.count = 0;
    for (let [conversation, seq] of [...this.dirty]) {
      if (!this.send(conversation, seq)) return;
      this.sent.set(conversation, seq), this.dirty.delete(conversation);
    }
  }
  stop() {
    clearTimeout(this.timer), this.timer = void 0;
  }
};

// typescript/src/emitter.ts
var Emitter = class {
  listeners = new globalThis.Map();
  on(name, listener) {
    let set = this.listeners.get(name) ?? /* @__PURE__ */ new Set();
    return set.add(listener), this.listeners.set(name, set), () => set.delete(listener);
  }
  emit(name, value) {
    for (let listener of [...this.listeners.get(name) ?? []])
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
  }
};

// typescript/src/endpoints.ts
var TRIES = 3, TRY_TIMEOUT_MS = 5e3, RETRY_MS = 3e4, SNAPSHOT_KEY = "nodes";
function webSocketUrl(address) {
  let url = new URL(address);
  return url.protocol = url.protocol.replace(/^http/, "ws"), url.pathname === "/" && (url.pathname = "/v1/ws"), url.toString();
}
var Endpoints = class {
  constructor(options, store2, prefix, sleep, fetcher = (...args) => fetch(...args)) {
    this.options = options;
    this.store = store2;
    this.prefix = prefix;
    this.sleep = sleep;
    this.fetcher = fetcher;
  }
  options;
  store;
  prefix;
  sleep;
  fetcher;
  addresses;
  turn = 0;
  /** The next address; after a failure, `failed` turns to the one behind it. */
  async pick(token2) {
    this.addresses ??= await this.load(token2);
    let address = this.addresses[this.turn % this.addresses.length];
    if (!address) throw new SdkError({ step: "nodes", address: this.options.nodesUrl ?? "", message: "no address to connect to" });
    return webSocketUrl(address);
  }
  failed() {
    this.turn += 1, this.addresses && this.turn >= this.addresses.length && this.options.nodesUrl && (this.addresses = void 0, this.turn = 0);
  }
  fixed() {
    let { url } = this.options;
    return url === void 0 ? [] : Array.isArray(url) ? url : [url];
  }
  async load(token2) {
    let { nodesUrl } = this.options;
    if (!nodesUrl) return this.fixed();
    let tries = this.fixed().length > 0 ? 1 : TRIES;
    for (let i = 0; ; i += 1) {
      try {
        let nodes = await this.ask(nodesUrl, await token2());
        return await this.store.set(this.prefix + SNAPSHOT_KEY, JSON.stringify(nodes)), [...nodes, ...this.fixed()];
      } catch (error) {
        let known = await this.snapshot();
        if (known.length > 0) return known;
        if (i + 1 >= tries) throw error;
      }
      await this.sleep(RETRY_MS);
    }
  }
  async snapshot() {
    let text2 = await this.store.get(this.prefix + SNAPSHOT_KEY);
    return [...text2 ? JSON.parse(text2) : [], ...this.fixed()];
  }
  async ask(nodesUrl, token2) {
    let fail = (message, code = 0, traceId = "", cause) => new SdkError({ step: "nodes", address: nodesUrl, code, message, traceId, temporary: !0, cause }), response;
    try {
      response = await this.fetcher(nodesUrl, { headers: { authorization: `Bearer ${token2}` }, signal: AbortSignal.timeout(TRY_TIMEOUT_MS) });
    } catch (cause) {
      throw fail("no answer", 0, "", cause);
    }
    let body = await response.json().catch(() => {
    });
    if (!response.ok) {
      let error = body?.error;
      throw fail(error?.message ?? response.statusText, response.status, error?.trace_id);
    }
    let urls = ((Array.isArray(body) ? body : body?.nodes) ?? []).map((node) => node.url).filter((url) => typeof url == "string");
    if (urls.length === 0) throw fail("the list of nodes is empty or not readable", response.status);
    return urls;
  }
};

// typescript/src/recovery.ts
var SYNC_WAIT_MS = 3e3, SYNC_STEP_MS = 100, RETRY_MS2 = [1e3, 2e3, 4e3, 8e3, 16e3, 3e4], Recovery = class {
  constructor(io, maxAutoFill) {
    this.io = io;
    this.maxAutoFill = maxAutoFill;
  }
  io;
  maxAutoFill;
  running = /* @__PURE__ */ new Set();
  async fill(conversation, way) {
    if (!this.running.has(conversation)) {
      this.running.add(conversation);
      try {
        way === "sync" && await this.bySync(conversation), await this.byHistory(conversation);
      } catch (error) {
        this.io.report(error);
      } finally {
        this.running.delete(conversation);
      }
    }
  }
  async bySync(conversation) {
    let hole = this.io.hole(conversation);
    if (hole) {
      try {
        await this.io.sync(conversation, hole.from - 1);
      } catch (error) {
        this.io.report(error);
        return;
      }
      for (let waited = 0; waited < SYNC_WAIT_MS && this.io.hole(conversation); waited += SYNC_STEP_MS)
        await this.io.sleep(SYNC_STEP_MS);
    }
  }
  async byHistory(conversation) {
    for (let failures = 0; ; ) {
      let hole = this.io.hole(conversation);
      if (!hole) return;
      let size = hole.to - hole.from + 1;
      if (size > this.maxAutoFill) {
        this.io.skip({ conversation, ...hole, reason: "missing" });
        continue;
      }
      let ask2 = { after: hole.from - 1, limit: Math.min(size, this.io.maxPage()) };
      try {
        this.io.feed(await this.io.history(conversation, ask2));
      } catch (error) {
        if (!(error instanceof SdkError) || !error.answered || error.outcomeClass === "rejected") throw error;
        this.io.report(error);
      }
      this.io.hole(conversation)?.from === hole.from ? (await this.io.sleep(RETRY_MS2[Math.min(failures, RETRY_MS2.length - 1)] ?? 3e4), failures += 1) : failures = 0;
    }
  }
};

// typescript/src/timeline.ts
var Timeline = class {
  /** @param cursor the newest seq that the application holds */
  constructor(cursor) {
    this.cursor = cursor;
  }
  cursor;
  ahead = /* @__PURE__ */ new Map();
  skips = [];
  expectedTo = 0;
  receive(events) {
    for (let event of events)
      event.seq > this.cursor && (this.ahead.size < 2e3 || event.seq === this.cursor + 1) && this.ahead.set(event.seq, event), this.expectedTo = Math.max(this.expectedTo, event.seq);
    return this.advance();
  }
  /** The server says that these will not come. */
  skip(from, to) {
    return to > this.cursor && this.skips.push({ from, to }), this.expectedTo = Math.max(this.expectedTo, to), this.advance();
  }
  /** The server pushes only what is newer than `seq`: all up to there must be fetched, unless it is already here. */
  expectUpTo(seq) {
    return this.expectedTo = Math.max(this.expectedTo, seq), this.advance();
  }
  /** The application lost its state after `seq`, and wants all events from there once more. */
  rewind(seq) {
    this.cursor = seq, this.ahead.clear(), this.skips = [];
  }
  advance() {
    let deliver = [];
    for (; ; ) {
      let next = this.cursor + 1, skip = this.skips.find((range) => range.from <= next && next <= range.to), event = this.ahead.get(next);
      if (event)
        this.ahead.delete(next), deliver.push(event), this.cursor = next;
      else if (skip)
        this.cursor = skip.to;
      else break;
    }
    this.skips = this.skips.filter((range) => range.to > this.cursor);
    for (let seq of this.ahead.keys()) seq <= this.cursor && this.ahead.delete(seq);
    return this.expectedTo > this.cursor ? { deliver, hole: this.hole() } : { deliver };
  }
  hole() {
    let from = this.cursor + 1, starts = [...this.ahead.keys(), ...this.skips.map((range) => range.from)], next = starts.length > 0 ? Math.min(...starts) : this.expectedTo + 1;
    return { from, to: next - 1 };
  }
};

// typescript/src/inbox.ts
var Inbox = class {
  constructor(io, maxAutoFill) {
    this.io = io;
    this.maxAutoFill = maxAutoFill;
    let { sync, history, report, sleep, maxPage } = io, hole = (conversation) => this.holes.get(conversation), feed = (page) => this.feed(page), skip = (gap) => this.skip(gap);
    this.recovery = new Recovery({ hole, feed, skip, sync, history, report, sleep, maxPage }, maxAutoFill);
  }
  io;
  maxAutoFill;
  timelines = /* @__PURE__ */ new Map();
  holes = /* @__PURE__ */ new Map();
  newest = /* @__PURE__ */ new Map();
  recovery;
  start(cursors) {
    for (let { conversation, seq } of cursors) this.timelines.set(conversation, new Timeline(seq));
  }
  cursors() {
    return [...this.timelines].map(([conversation, timeline]) => ({ conversation, seq: timeline.cursor }));
  }
  /** The newest seq that this client knows to exist. */
  seen(conversation) {
    return Math.max(this.newest.get(conversation) ?? 0, this.timelines.get(conversation)?.cursor ?? 0);
  }
  saw(conversation, seq) {
    seq > (this.newest.get(conversation) ?? 0) && this.newest.set(conversation, seq);
  }
  /** The server pushes what is newer than `liveAfter`; what we hold less than that is fetched. */
  attached(state) {
    let { conversation, liveAfter } = state, timeline = this.timelines.get(conversation);
    if (!timeline) {
      this.timelines.set(conversation, new Timeline(liveAfter));
      return;
    }
    this.apply(conversation, timeline.expectUpTo(liveAfter), "history");
  }
  joined(state) {
    let { conversation, liveAfter } = state, timeline = this.timelines.get(conversation);
    timeline ? liveAfter > timeline.cursor && this.skip({ conversation, from: timeline.cursor + 1, to: liveAfter, reason: "notMember" }) : this.timelines.set(conversation, new Timeline(liveAfter));
  }
  receive(events) {
    let byConversation = /* @__PURE__ */ new Map();
    for (let event of events) {
      let list = byConversation.get(event.conversation);
      list ? list.push(event) : byConversation.set(event.conversation, [event]);
    }
    for (let [conversation, list] of byConversation) this.receiveFor(conversation, list);
  }
  gap(gap) {
    if (gap.reason !== "tooMany" || gap.to - gap.from + 1 > this.maxAutoFill) return this.skip(gap);
    let timeline = this.timeline(gap.conversation, gap.from - 1);
    this.apply(gap.conversation, timeline.expectUpTo(gap.to), "history");
  }
  rewind(conversation, seq) {
    this.holes.delete(conversation), this.timeline(conversation, seq).rewind(seq);
  }
  receiveFor(conversation, events) {
    let first = events[0];
    first && this.apply(conversation, this.timeline(conversation, first.seq - 1).receive(events), "sync");
  }
  timeline(conversation, cursor) {
    let timeline = this.timelines.get(conversation) ?? new Timeline(cursor);
    return this.timelines.set(conversation, timeline), timeline;
  }
  feed(page) {
    let { conversation } = page;
    this.apply(conversation, this.timeline(conversation, 0).receive(page.events), "history"), page.gaps.forEach((gap) => this.skip({ ...gap, conversation }));
  }
  skip(gap) {
    let timeline = this.timeline(gap.conversation, gap.from - 1), isNew = gap.to > timeline.cursor, step = timeline.skip(gap.from, gap.to);
    isNew && this.io.gap(gap), this.apply(gap.conversation, step, "sync");
  }
  apply(conversation, step, way) {
    step.hole ? this.holes.set(conversation, step.hole) : this.holes.delete(conversation), step.deliver.length > 0 && this.io.events(conversation, step.deliver), step.hole && this.recovery.fill(conversation, way);
  }
};

// typescript/src/outbox.ts
var LANE_WINDOW = 16, RETRY_MARGIN_MS = 10 * 6e4, TOLD_KEPT = 4096;
function laneKey(target) {
  return "conversation" in target ? `c ${target.conversation}` : `u ${target.toUser}`;
}
var Outbox = class {
  /** @param nextOrder by default a figure that is greater in each later run, so that old messages go first */
  constructor(random = Math.random, nextOrder = Date.now() * 1e3) {
    this.random = random;
    this.nextOrder = nextOrder;
  }
  random;
  nextOrder;
  lanes = /* @__PURE__ */ new Map();
  /** Those without an outcome. A lane may hold others, whose outcome is told. */
  byMid = /* @__PURE__ */ new Map();
  settled = [];
  /** Those told last that they stand, oldest first. */
  told = /* @__PURE__ */ new Set();
  retryLimitMs = 2 * 36e5 - RETRY_MARGIN_MS;
  /** Older than the window less 10 min (never less than half of the window): not sent again. */
  setDedupeWindow(windowMs) {
    this.retryLimitMs = Math.max(windowMs - RETRY_MARGIN_MS, windowMs / 2);
  }
  get size() {
    return this.byMid.size;
  }
  has(clientMid) {
    return this.byMid.has(clientMid);
  }
  entries() {
    return [...this.byMid.values()].sort((a, b) => a.order - b.order);
  }
  add(init) {
    if (this.byMid.has(init.clientMid)) throw new Error(`client_mid ${init.clientMid} is already on its way`);
    let entry = { ...init, order: this.nextOrder, attempts: 0, refused: 0, firstWallMs: 0, inFlight: !1 };
    return this.insert(entry), entry;
  }
  /** Messages of an earlier run: they go before those of this one. */
  restore(entries) {
    for (let entry of entries)
      this.byMid.has(entry.clientMid) || this.insert({ ...entry, inFlight: !1 });
  }
  insert(entry) {
    this.nextOrder = Math.max(this.nextOrder, entry.order + 1), this.byMid.set(entry.clientMid, entry);
    let key = laneKey(entry.target), lane = this.lanes.get(key) ?? { entries: [], notBefore: 0, refusals: 0, window: LANE_WINDOW };
    lane.entries.push(entry), lane.entries.sort((a, b) => a.order - b.order), this.lanes.set(key, lane);
  }
  /** The next message to send. Its attempt is counted and dated here: write the entry down, then send it. */
  take(now) {
    this.expire(now);
    for (let lane of this.lanes.values()) {
      let inFlight = lane.entries.filter((entry2) => entry2.inFlight).length;
      if (now.mono < lane.notBefore || inFlight >= lane.window) continue;
      let entry = lane.entries.find((candidate) => !candidate.inFlight);
      if (entry)
        return entry.attempts === 0 && (entry.firstWallMs = now.wall, entry.firstMonoMs = now.mono, now.server !== void 0 && (entry.firstServerMs = now.server)), entry.attempts += 1, entry.inFlight = !0, entry;
    }
  }
  /** Age of the first attempt. After a restart no monotonic clock reaches back: the server's time, then the wall clock. */
  ageMs(entry, now) {
    if (entry.attempts === 0) return 0;
    let byServer = entry.firstServerMs !== void 0 && now.server !== void 0 ? now.server - entry.firstServerMs : -1 / 0;
    if (entry.firstMonoMs !== void 0) return Math.max(now.mono - entry.firstMonoMs, byServer, 0);
    let age = Math.max(byServer, now.wall - entry.firstWallMs);
    return age < -RETRY_MARGIN_MS ? 1 / 0 : Math.max(age, 0);
  }
  accepted(entry, stand) {
    let lane = this.laneOf(entry);
    lane && (Object.assign(lane, { refusals: 0, window: Math.min(lane.window + 1, LANE_WINDOW) }), this.settle(entry, this.standing(entry, stand)));
  }
  /**
   * The sender's own event may come before the answer, or instead of one that was lost: it stands in the log. On this
   * connection the message still has its turn: a server that refused it for now holds back what is behind it until then.
   * The event of a message that was told before says nothing of a later one with its client_mid: that one has its answer.
   */
  ownEvent(event) {
    let entry = this.byMid.get(event.clientMid);
    if (!entry || this.told.has(event.clientMid)) return;
    let { conversation, seq, n, sentAtMs } = event, outcome = this.standing(entry, { conversation, seq, n, sentAtMs, duplicate: !1 });
    entry.inFlight || entry.held ? (entry.told = !0, this.tell(entry, outcome)) : this.settle(entry, outcome);
  }
  standing(entry, { duplicate, ...rest }) {
    return { outcome: duplicate ? "duplicate" : "accepted", clientMid: entry.clientMid, attempts: entry.attempts, ...rest };
  }
  /** An error answer to one attempt. */
  refused(entry, error, now) {
    this.laneOf(entry) && (entry.lastError = error, entry.inFlight = !1, error.outcomeClass !== "unknown" && (entry.refused += 1), error.outcomeClass === "rejected" ? this.fail(entry, error) : this.holdBack(entry, error.retryAfterMs, now));
  }
  /** No answer to one attempt, on a connection that still stands. */
  unanswered(entry, error, now) {
    this.laneOf(entry) && (entry.lastError = error, entry.inFlight = !1, this.holdBack(entry, 0, now));
  }
  /** The attempt was counted but never left this process. */
  notSent(entry) {
    entry.inFlight && (entry.inFlight = !1, entry.refused += 1);
  }
  disconnected() {
    for (let entry of [...this.lanes.values()].flatMap((lane) => lane.entries))
      entry.inFlight = !1, entry.held = !1, entry.told && this.remove(entry);
    for (let lane of this.lanes.values()) Object.assign(lane, { notBefore: 0, refusals: 0, window: LANE_WINDOW });
  }
  /** Settles what is too old or given up; called by `take`, and by the shell while there is no connection. */
  expire(now) {
    for (let entry of this.entries())
      if (entry.giveUpAtMs !== void 0 && now.mono >= entry.giveUpAtMs)
        this.fail(entry, this.wordFor(entry, "gave_up", "the time given by the application is over"));
      else if (!entry.inFlight && this.ageMs(entry, now) >= this.retryLimitMs) {
        let error = this.wordFor(entry, "too_old", "its first attempt is too old to be told apart from a new message");
        this.settle(entry, { outcome: "unknown", clientMid: entry.clientMid, attempts: entry.attempts, error });
      }
  }
  drain() {
    let settled = this.settled;
    return this.settled = [], settled;
  }
  /** When to call `take` next, if no answer comes before (monotonic ms). `live`: there is a connection to send on. */
  nextWake(now, live) {
    let times = [];
    for (let lane of live ? this.lanes.values() : []) {
      let inFlight = lane.entries.filter((entry) => entry.inFlight).length;
      inFlight < lane.window && inFlight < lane.entries.length && times.push(lane.notBefore);
    }
    for (let entry of this.entries())
      entry.giveUpAtMs !== void 0 && times.push(entry.giveUpAtMs), entry.attempts > 0 && !entry.inFlight && times.push(now.mono + this.retryLimitMs - this.ageMs(entry, now));
    return times.length > 0 ? Math.min(...times) : void 0;
  }
  holdBack(entry, retryAfterMs, now) {
    let lane = this.laneOf(entry);
    lane && (entry.held = !0, now.mono >= lane.notBefore && (lane.refusals += 1), lane.window = 1, lane.notBefore = Math.max(lane.notBefore, now.mono + publishDelayMs(lane.refusals, retryAfterMs, this.random)));
  }
  /** Rejected only if every attempt was refused; else a copy may stand, and the code is only the reason (R-ACK-6). */
  fail(entry, error) {
    let outcome = entry.attempts > entry.refused ? "unknown" : "rejected";
    this.settle(entry, { outcome, clientMid: entry.clientMid, attempts: entry.attempts, error });
  }
  settle(entry, outcome) {
    this.remove(entry), entry.told || this.tell(entry, outcome);
  }
  tell(entry, outcome) {
    if (this.byMid.delete(entry.clientMid), this.settled.push({ entry, outcome }), !("seq" in outcome)) return;
    this.told.add(entry.clientMid);
    let [oldest] = this.told;
    oldest !== void 0 && this.told.size > TOLD_KEPT && this.told.delete(oldest);
  }
  remove(entry) {
    let lane = this.laneOf(entry);
    lane && (lane.entries = lane.entries.filter((other) => other !== entry), lane.entries.length === 0 && this.lanes.delete(laneKey(entry.target)));
  }
  /** Undefined for a message that is settled and has left. */
  laneOf(entry) {
    let lane = this.lanes.get(laneKey(entry.target));
    return lane?.entries.includes(entry) ? lane : void 0;
  }
  wordFor(entry, name, why) {
    let last = entry.lastError;
    return new SdkError({
      step: "publish",
      address: last?.address ?? "",
      code: last?.code ?? 0,
      name,
      message: last ? `${why}; last answer: ${last.message}` : why,
      traceId: last?.traceId ?? ""
    });
  }
};

// typescript/src/outbox-record.ts
function store(content) {
  let type = content.type ? { type: content.type } : {};
  return "text" in content ? { text: content.text, ...type } : { base64: btoa(Array.from(content.data, (byte) => String.fromCharCode(byte)).join("")), ...type };
}
function load(stored) {
  let type = stored.type ? { type: stored.type } : {};
  return stored.base64 === void 0 ? { text: stored.text ?? "", ...type } : { data: Uint8Array.from(atob(stored.base64), (char) => char.charCodeAt(0)), ...type };
}
function toRecord(entry) {
  let { clientMid, target, receipt, order, attempts, refused, firstWallMs, firstServerMs } = entry, record = { v: 1, clientMid, target, receipt, order, attempts, refused, firstWallMs, content: store(entry.content) };
  return firstServerMs !== void 0 && (record.firstServerMs = firstServerMs), JSON.stringify(record);
}
function fromRecord(text2) {
  try {
    let { v, content, ...rest } = JSON.parse(text2);
    return v !== 1 || typeof rest.clientMid != "string" || typeof rest.attempts != "number" ? void 0 : { ...rest, content: load(content), inFlight: !1 };
  } catch {
    return;
  }
}

// typescript/src/publisher.ts
var Publisher = class {
  constructor(io, store2, prefix, answerTimeoutMs, random) {
    this.io = io;
    this.store = store2;
    this.prefix = prefix;
    this.answerTimeoutMs = answerTimeoutMs;
    this.outbox = new Outbox(random);
  }
  io;
  store;
  prefix;
  answerTimeoutMs;
  outbox;
  promises = /* @__PURE__ */ new Map();
  writes = Promise.resolve();
  pumping = !1;
  again = !1;
  timer;
  async restore() {
    let keys = await this.store.keys(this.prefix), texts = await Promise.all(keys.map((key) => this.store.get(key)));
    this.outbox.restore(texts.flatMap((text2) => text2 ? fromRecord(text2) ?? [] : []));
  }
  pending() {
    return this.outbox.entries().map((entry) => ({ ...entry }));
  }
  setDedupeWindow(windowMs) {
    this.outbox.setDedupeWindow(windowMs);
  }
  publish(target, content, options) {
    let { clientMid, receipt = !0, giveUpAfterMs } = options, giveUp = giveUpAfterMs === void 0 ? {} : { giveUpAtMs: this.io.now().mono + giveUpAfterMs }, entry = this.outbox.add({ clientMid, target, content, receipt, ...giveUp }), outcome = new Promise((resolve) => this.promises.set(clientMid, resolve));
    return this.write(() => this.outbox.has(clientMid) ? this.store.set(this.prefix + clientMid, toRecord(entry)) : void 0).catch(
      (cause) => this.io.report(storeError(cause))
    ), this.pump(), outcome;
  }
  ownEvent(event) {
    this.outbox.has(event.clientMid) && (this.outbox.ownEvent(event), this.settle(), this.pump());
  }
  disconnected() {
    this.outbox.disconnected();
  }
  stop() {
    clearTimeout(this.timer), this.timer = void 0;
  }
  /** Sends what may go out now, then sleeps until the next time that something may. */
  async pump() {
    if (this.again = !0, !this.pumping) {
      for (this.pumping = !0; this.again; )
        this.again = !1, await this.sendDue();
      this.pumping = !1, this.sleep();
    }
  }
  async sendDue() {
    for (; ; ) {
      let connection = this.io.live();
      connection || this.outbox.expire(this.io.now());
      let entry = connection ? this.outbox.take(this.io.now()) : void 0;
      if (this.settle(), !connection || !entry) return;
      try {
        await this.write(() => entry.told ? void 0 : this.store.set(this.prefix + entry.clientMid, toRecord(entry)));
      } catch (cause) {
        this.outbox.refused(entry, storeError(cause), this.io.now());
        continue;
      }
      this.io.live() === connection ? this.attempt(connection, entry) : this.outbox.notSent(entry);
    }
  }
  async attempt(connection, entry) {
    try {
      let answer = await this.ask(connection, entry);
      if (answer.case !== "published") throw unexpected(connection.address, answer.case);
      let { conversation, seq, n, sentAtMs, outcome } = answer.value, stand = { conversation, seq: num(seq), n: num(n), sentAtMs: num(sentAtMs) };
      this.outbox.accepted(entry, { ...stand, duplicate: outcome === 2 /* DUPLICATE */ });
    } catch (error) {
      await this.failed(connection, entry, asSdkError(error, connection.address));
    }
    this.settle(), this.pump();
  }
  ask(connection, entry) {
    let { clientMid, target, content, attempts: attempt, receipt } = entry, age = attempt === 1 ? 0 : this.outbox.ageMs(entry, this.io.now()), body = "text" in content ? { case: "text", value: content.text } : { case: "data", value: content.data }, value = {
      target: "conversation" in target ? { case: "conversation", value: target.conversation } : { case: "toUser", value: target.toUser },
      clientMid,
      content: { body, type: content.type ?? "" },
      attempt,
      firstAttemptAgeMs: BigInt(Math.round(age)),
      receipt
    };
    return connection.request({ case: "publish", value }, "publish", this.answerTimeoutMs);
  }
  async failed(connection, entry, error) {
    if (error.codeName === "not_sent") return this.outbox.notSent(entry);
    error.answered ? (this.outbox.refused(entry, error, this.io.now()), error.code === 401 && await this.io.refreshToken()) : this.io.live() === connection && this.outbox.unanswered(entry, error, this.io.now());
  }
  settle() {
    for (let { entry, outcome } of this.outbox.drain())
      this.write(() => this.store.delete(this.prefix + entry.clientMid)).catch((cause) => this.io.report(storeError(cause))), this.io.settled(entry, outcome), this.promises.get(entry.clientMid)?.(outcome), this.promises.delete(entry.clientMid);
  }
  /** Writes are made one after the other: an old state never lands on a newer one. */
  write(make) {
    let done = this.writes.then(() => make());
    return this.writes = done.catch(() => {
    }), done;
  }
  sleep() {
    clearTimeout(this.timer);
    let now = this.io.now(), wake = this.outbox.nextWake(now, this.io.live() !== void 0);
    wake !== void 0 && (this.timer = setTimeout(() => {
      this.pump();
    }, Math.min(Math.max(wake - now.mono, 1), 36e5)));
  }
};
function asSdkError(error, address) {
  return error instanceof SdkError ? error : new SdkError({ step: "publish", address, message: String(error), cause: error });
}
function unexpected(address, got) {
  return new SdkError({ step: "publish", address, name: "unexpected", message: `an answer of kind ${got ?? "none"}`, outcomeClass: classOfCode(0) });
}
function storeError(cause) {
  let message = "the message cannot be written to the store, so it is not sent yet";
  return new SdkError({ step: "publish", name: "store_failed", message, outcomeClass: "open", temporary: !0, cause });
}

// typescript/src/receipts.ts
var Receipts = class {
  constructor(persistedSeq, emit) {
    this.persistedSeq = persistedSeq;
    this.emit = emit;
  }
  persistedSeq;
  emit;
  watched = /* @__PURE__ */ new Map();
  timer;
  periodMs = 2e3;
  stopped = !1;
  watch(conversation, seq) {
    let seqs = this.watched.get(conversation) ?? /* @__PURE__ */ new Set();
    seqs.add(seq), this.watched.set(conversation, seqs), this.schedule();
  }
  heard(persisted) {
    let done = [...persisted.seqs, ...persisted.deadLettered], missed = this.settle(persisted.conversation, (seq) => seq <= persisted.persistedSeq || done.includes(seq)).filter((seq) => !done.includes(seq));
    this.emit({ ...persisted, seqs: [...persisted.seqs, ...missed] });
  }
  /** A new connection: ask soon. */
  resume() {
    this.stopped = !1, this.periodMs = 2e3, clearTimeout(this.timer), this.timer = void 0, this.watched.size > 0 && this.poll();
  }
  stop() {
    this.stopped = !0, clearTimeout(this.timer), this.timer = void 0;
  }
  settle(conversation, done) {
    let seqs = this.watched.get(conversation);
    if (!seqs) return [];
    let settled = [...seqs].filter(done).sort((a, b) => a - b);
    return settled.forEach((seq) => seqs.delete(seq)), seqs.size === 0 && this.watched.delete(conversation), settled;
  }
  schedule() {
    this.stopped || this.watched.size === 0 || (this.timer ??= setTimeout(() => {
      this.timer = void 0, this.poll();
    }, this.periodMs));
  }
  async poll() {
    let due = [...this.watched.keys()];
    for (let conversation of due) {
      let persistedSeq = await this.persistedSeq(conversation).catch(() => 0), seqs = this.settle(conversation, (seq) => seq <= persistedSeq);
      seqs.length > 0 && this.emit({ conversation, persistedSeq, seqs, deadLettered: [] });
    }
    this.periodMs = Math.min(this.periodMs * 2, 3e4), this.schedule();
  }
};

// typescript/src/store.ts
var MemoryStore = class {
  values = /* @__PURE__ */ new Map();
  async get(key) {
    return this.values.get(key);
  }
  async set(key, value) {
    this.values.set(key, value);
  }
  async delete(key) {
    this.values.delete(key);
  }
  async keys(prefix) {
    return [...this.values.keys()].filter((key) => key.startsWith(prefix));
  }
}, WebStore = class {
  constructor(storage = globalThis.localStorage) {
    this.storage = storage;
  }
  storage;
  async get(key) {
    return this.storage.getItem(key) ?? void 0;
  }
  async set(key, value) {
    this.storage.setItem(key, value);
  }
  async delete(key) {
    this.storage.removeItem(key);
  }
  async keys(prefix) {
    let found = [];
    for (let i = 0; i < this.storage.length; i += 1) {
      let key = this.storage.key(i);
      key?.startsWith(prefix) && found.push(key);
    }
    return found;
  }
};

// typescript/src/util.ts
var Sleeper = class {
  waiting = /* @__PURE__ */ new Set();
  closed = !1;
  sleep(ms) {
    return new Promise((resolve) => {
      if (this.closed) return resolve();
      let done = () => {
        clearTimeout(timer), this.waiting.delete(done), resolve();
      }, timer = setTimeout(done, ms);
      this.waiting.add(done);
    });
  }
  wake() {
    for (let done of [...this.waiting]) done();
  }
  /** From now on nothing waits, until `open`. */
  close() {
    this.closed = !0, this.wake();
  }
  open() {
    this.closed = !1;
  }
};
function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
function tokenExpiryMs(token2) {
  try {
    let payload = token2.split(".")[1] ?? "", claims = JSON.parse(atob(payload.replace(/-/g, "+").replace(/_/g, "/")));
    return typeof claims.exp == "number" ? claims.exp * 1e3 : void 0;
  } catch {
    return;
  }
}

// typescript/src/client.ts
var CONNECT_TIMEOUT_MS = 1e4, STABLE_MS = 5e3, LapwingClient = class extends Emitter {
  constructor(options) {
    super();
    this.options = options;
    this.store = options.store ?? new MemoryStore(), this.prefix = `lapwing/${options.namespace ?? "default"}/`, this.random = options.random ?? Math.random, this.endpoints = new Endpoints(options, this.store, this.prefix, (ms) => this.sleeper.sleep(ms)), this.receipts = new Receipts(
      async (conversation) => (await this.history(conversation, { limit: 0 })).persistedSeq,
      (persisted) => this.emit("persisted", persisted)
    ), this.acks = new CursorBatch((conversation, seq) => this.post("ack", conversation, seq)), this.reads = new CursorBatch((conversation, seq) => this.post("read", conversation, seq)), this.inbox = new Inbox(
      {
        events: (conversation, events) => this.deliver(conversation, events),
        gap: (gap) => this.emit("gap", gap),
        sync: async (conversation, seq) => {
          await this.request({ case: "sync", value: { conversation, seq: BigInt(seq) } }, "sync");
        },
        history: (conversation, query) => this.history(conversation, query),
        report: (error) => this.report(error, "sync"),
        sleep: (ms) => this.sleeper.sleep(ms),
        maxPage: () => this.welcome?.limits.maxHistoryPage ?? 500
      },
      options.maxAutoFill ?? 2e3
    ), this.inbox.start(options.cursors ?? []), this.publisher = new Publisher(
      {
        now: () => this.now(),
        live: () => this.successor === void 0 && this.connection?.alive ? this.connection : void 0,
        refreshToken: () => this.refreshToken(),
        settled: (entry, outcome) => {
          "seq" in outcome && (this.inbox.saw(outcome.conversation, outcome.seq), entry.receipt && this.receipts.watch(outcome.conversation, outcome.seq)), this.emit("outcome", outcome);
        },
        report: (error) => this.emit("error", error)
      },
      this.store,
      `${this.prefix}outbox/`,
      options.answerTimeoutMs ?? 15e3,
      this.random
    );
  }
  options;
  store;
  prefix;
  random;
  endpoints;
  publisher;
  inbox;
  receipts;
  acks;
  reads;
  sleeper = new Sleeper();
  connection;
  welcome;
  welcomeAt = 0;
  current = { state: "idle" };
  running;
  stopped = !0;
  restored = !1;
  abort = new AbortController();
  /** Open to another node, and next in turn: nothing more is sent on the old connection. */
  successor;
  tokenTimer;
  networkIsBack = () => this.reconnectNow();
  get state() {
    return this.current;
  }
  /** Resolves with the first welcome; fails only for what will not mend by itself. Reconnects from then on until `close`. */
  async connect() {
    if (!this.stopped) throw new Error("already connecting or connected");
    return this.stopped = !1, this.abort = new AbortController(), this.sleeper.open(), this.restored || (await this.publisher.restore(), this.restored = !0), globalThis.addEventListener?.("online", this.networkIsBack), new Promise((resolve, reject) => {
      let off = this.on("state", (state) => {
        state.state !== "online" && state.state !== "closed" || (off(), state.state === "online" ? resolve(state.welcome) : reject(state.error ?? new SdkError({ step: "connect", message: "closed by the application" })));
      });
      this.running = this.run();
    });
  }
  /** Ends the connection. Unsettled messages stay in the store for the next run. */
  async close() {
    this.stopped = !0, this.acks.flush(), this.reads.flush(), this.sleeper.close(), this.abort.abort(), this.connection?.close(1e3, "closed by the application"), await this.running;
  }
  /** Skips the wait before the next reconnect. */
  reconnectNow() {
    this.current.state === "waiting" && this.sleeper.wake();
  }
  /** Cuts the connection as a lost network would; the client comes back by itself. */
  dropConnection() {
    this.connection?.close(4002, "cut");
  }
  /** Publishes; settles with one of the four outcomes and never throws for one of them. */
  publish(target, content, options = {}) {
    return this.publisher.publish(target, content, { ...options, clientMid: options.clientMid ?? randomId() });
  }
  /** Messages without an outcome, those of earlier runs included (after `connect`). */
  pending() {
    return this.publisher.pending().map(({ clientMid, target, content, attempts }) => ({ clientMid, target, content, attempts }));
  }
  async history(conversation, query = {}) {
    let { after, before, limit = 100, reverse = !1 } = query, value = {
      conversation,
      limit,
      reverse,
      seen: BigInt(this.inbox.seen(conversation)),
      ...after === void 0 ? {} : { after: BigInt(after) },
      ...before === void 0 ? {} : { before: BigInt(before) }
    }, answer = await this.request({ case: "history", value }, "history");
    if (answer.case !== "history") throw this.failure("history", "unexpected", `an answer of kind ${answer.case ?? "none"}`);
    return pageOf(answer.value);
  }
  /** Read up to `seq`; sent at most each second. */
  read(conversation, seq) {
    this.reads.move(conversation, seq);
  }
  /** The application lost its state after `seq`: all events from there come once more. */
  async sync(conversation, seq) {
    this.inbox.rewind(conversation, seq), await this.request({ case: "sync", value: { conversation, seq: BigInt(seq) } }, "sync");
  }
  /** Reports `persisted` for a message of an earlier run, once it is in MySQL. */
  watchPersisted(conversation, seq) {
    this.receipts.watch(conversation, seq);
  }
  /** The newest delivered seq per conversation: what an application with a store of its own gives to the next run. */
  cursors() {
    return this.inbox.cursors();
  }
  async run() {
    let attempt = 0;
    for (; !this.stopped; ) {
      let error = await this.session(attempt).catch((cause) => asSdkError2(cause)), stable = this.welcome !== void 0 && performance.now() - this.welcomeAt >= STABLE_MS, known = this.welcome !== void 0;
      if (this.offline(), this.stopped || !this.mayReconnect(error)) {
        this.finish(this.stopped ? void 0 : error);
        return;
      }
      if (this.successor?.alive && known) continue;
      known || this.endpoints.failed(), stable && (attempt = 0);
      let retryInMs = Math.max(reconnectDelayMs(attempt, this.random), error.retryAfterMs);
      attempt += 1, this.setState({ state: "waiting", attempt, retryInMs, error }), retryInMs > 0 && await this.sleeper.sleep(retryInMs);
    }
    this.finish(void 0);
  }
  /** One connection from dial to close; returns, or throws, why it ended. */
  async session(attempt) {
    let moved = this.successor?.alive ? this.successor : void 0;
    this.successor = void 0;
    let address = moved?.address ?? await this.endpoints.pick(() => this.token());
    this.setState({ state: "connecting", attempt, address });
    let token2 = await this.token(), connection = moved ?? await this.dial(address);
    return this.stopped && connection.close(1e3, "closed by the application"), await this.signIn(connection, token2), connection.closed;
  }
  async dial(address) {
    let { signal } = this.abort, connection = await Connection.open({
      address,
      subprotocol: this.options.subprotocol ?? "lapwing.v1.proto",
      socket: this.options.WebSocket ?? globalThis.WebSocket,
      dialTimeoutMs: this.options.dialTimeoutMs ?? 1e4,
      signal,
      ...this.options.traceparent ? { traceparent: this.options.traceparent } : {}
    }), stop = () => connection.close(1e3, "closed by the application");
    return signal.addEventListener("abort", stop), connection.closed.then(() => signal.removeEventListener("abort", stop)), connection;
  }
  async signIn(connection, token2) {
    let value = {
      token: token2,
      device: await this.device(),
      cursors: this.inbox.cursors().map(({ conversation, seq }) => ({ conversation, seq: BigInt(seq) })),
      receipts: !0
    }, answer;
    try {
      answer = await connection.request({ case: "connect", value }, "connect", CONNECT_TIMEOUT_MS);
    } catch (error) {
      let closed = await Promise.race([connection.closed, this.sleeper.sleep(1e3)]);
      throw connection.close(1e3, "refused"), closed instanceof SdkError && error instanceof SdkError && !reconnects(closed.code) ? final(error, closed.code) : error;
    }
    if (answer.case !== "welcome")
      throw connection.close(1e3, "no welcome"), this.failure("connect", "unexpected", `an answer of kind ${answer.case ?? "none"}`, connection.address);
    this.online(connection, welcomeOf(answer.value), token2), this.conversations(answer.value.conversations.map(stateOf), answer.value.complete), connection.start((body) => this.push(body), this.welcome?.heartbeatMs ?? 25e3), this.acks.flush(), this.reads.flush(), this.receipts.resume(), this.publisher.pump();
  }
  online(connection, welcome, token2) {
    this.connection = connection, this.welcome = welcome, this.welcomeAt = performance.now(), this.publisher.setDedupeWindow(welcome.limits.dedupeWindowMs), this.refreshBefore(token2), this.setState({ state: "online", address: connection.address, welcome });
  }
  offline() {
    this.connection = void 0, this.welcome = void 0, clearTimeout(this.tokenTimer), this.publisher.disconnected();
  }
  finish(error) {
    this.stopped = !0, globalThis.removeEventListener?.("online", this.networkIsBack);
    for (let part of [this.publisher, this.receipts, this.acks, this.reads]) part.stop();
    this.setState(error ? { state: "closed", error } : { state: "closed" });
  }
  mayReconnect(error) {
    return reconnects(error.code);
  }
  push(body) {
    switch (body.case) {
      case "events":
        return this.inbox.receive(body.value.events.map(eventOf));
      case "gap":
        return this.inbox.gap(gapOf(body.value));
      case "joined": {
        let state = stateOf(body.value);
        return this.inbox.joined(state), this.emit("joined", state);
      }
      case "conversations":
        return this.conversations(body.value.conversations.map(stateOf), body.value.complete);
      case "persisted":
        return this.receipts.heard(persistedOf(body.value));
      case "cursor":
        return this.emit("cursor", cursorMovedOf(body.value));
      case "moved":
        return void this.move(body.value.url, body.value.withinMs);
      case "error":
        return this.emit("error", errorOf(body.value, "connection", this.connection?.address ?? ""));
      default:
        return;
    }
  }
  conversations(states, complete) {
    states.forEach((state) => this.inbox.attached(state)), this.emit("conversations", { conversations: states, complete });
  }
  deliver(conversation, events) {
    let { user } = this.welcome ?? {};
    for (let event of events) event.clientMid && event.sender === user && this.publisher.ownEvent(event);
    this.emit("events", { conversation, events });
    let last = events.at(-1);
    last && (this.options.acks ?? !0) && this.acks.move(conversation, last.seq, events.length);
  }
  /**
   * Another node takes over. It is dialled first, at a time spread over what is given: if it cannot be reached, this
   * connection is used until the server closes it. Then sending stops, answers come in, and the other one signs in.
   */
  async move(url, withinMs) {
    let connection = this.connection;
    if (!connection || this.successor || (await this.sleeper.sleep(this.random() * withinMs * 0.6), this.connection !== connection || !connection.alive)) return;
    let next;
    try {
      next = await this.dial(url ? webSocketUrl(url) : connection.address);
    } catch (error) {
      return this.report(error, "dial");
    }
    if (this.connection !== connection || !connection.alive) return next.close(1e3, "not needed");
    this.successor = next;
    for (let waited = 0; waited < withinMs * 0.3 && this.publisher.pending().some((entry) => entry.inFlight); waited += 20)
      await this.sleeper.sleep(20);
    this.connection === connection && connection.close(1e3, "moved");
  }
  async request(body, step) {
    if (!this.connection) throw this.failure(step, "offline", "there is no connection");
    return this.connection.request(body, step, this.options.answerTimeoutMs ?? 15e3);
  }
  post(kind, conversation, seq) {
    return this.connection?.post({ case: kind, value: { conversation, seq: BigInt(seq) } }) ?? !1;
  }
  refreshBefore(token2) {
    clearTimeout(this.tokenTimer);
    let expiry = tokenExpiryMs(token2);
    if (expiry === void 0 || !this.welcome) return;
    let left = expiry - this.welcome.serverTimeMs;
    this.tokenTimer = setTimeout(() => {
      this.refreshToken();
    }, Math.min(Math.max(left * 0.9, left - 6e4, 1e3), 864e5));
  }
  async refreshToken() {
    try {
      let token2 = await this.token();
      await this.request({ case: "refresh", value: { token: token2 } }, "refresh"), this.refreshBefore(token2);
    } catch (error) {
      this.report(error, "refresh");
    }
  }
  async token() {
    try {
      return await this.options.token();
    } catch (cause) {
      throw new SdkError({ step: "token", message: `the application gave no token: ${String(cause)}`, temporary: !0, cause });
    }
  }
  async device() {
    if (this.options.device) return this.options.device;
    let key = `${this.prefix}device`, known = await this.store.get(key), device = known ?? randomId();
    return known || await this.store.set(key, device), device;
  }
  now() {
    let mono = performance.now(), server = this.welcome?.serverTimeMs ? { server: this.welcome.serverTimeMs + mono - this.welcomeAt } : {};
    return { mono, wall: Date.now(), ...server };
  }
  setState(state) {
    this.current = state, this.emit("state", state);
  }
  report(error, step) {
    this.emit("error", error instanceof SdkError ? error : this.failure(step, "failed", String(error)));
  }
  failure(step, name, message, address = this.connection?.address ?? "") {
    return new SdkError({ step, address, name, message });
  }
};
function asSdkError2(cause) {
  return cause instanceof SdkError ? cause : new SdkError({ step: "connection", message: String(cause), cause });
}
function final(error, closeCode) {
  let { step, address, codeName, reason, traceId } = error;
  return new SdkError({ step, address, code: closeCode, name: codeName, message: `${error.code}: ${error.message}`, reason, traceId, cause: error });
}

// demo/src/chat.ts
var SIGNS = {
  sending: ["clock", "sending"],
  accepted: ["tick", "accepted"],
  persisted: ["ticks", "stored"],
  dead_lettered: ["alert", "set aside by the archive, still readable here"],
  rejected: ["alert", "rejected"],
  unknown: ["question", "outcome unknown"]
}, PAGE = 40, NEAR_BOTTOM_PX = 80, Chat = class {
  constructor(conversation, user, showNames, io) {
    this.conversation = conversation;
    this.user = user;
    this.showNames = showNames;
    this.io = io;
    this.jump = el("button", { class: "jump", type: "button", hidden: !0, onclick: () => this.toBottom() }, icon("down"), "New messages"), this.element = el("div", { class: "log", tabIndex: 0, aria: { role: "log", label: "Messages" } }, this.top, this.rows, this.jump), this.element.addEventListener("scroll", () => this.scrolled(), { passive: !0 });
    let resized = new ResizeObserver(() => this.followed && this.toBottom());
    resized.observe(this.element), resized.observe(this.rows);
  }
  conversation;
  user;
  showNames;
  io;
  element;
  rows = el("ol", { class: "rows" });
  top = el("div", { class: "top", textContent: "" });
  jump;
  items = [];
  bySeq = /* @__PURE__ */ new Map();
  byMid = /* @__PURE__ */ new Map();
  persistedSeq = 0;
  oldest;
  more = !0;
  loading = !1;
  followed = !0;
  lastTop = 0;
  get newestSeq() {
    return Math.max(0, ...this.bySeq.keys());
  }
  get atBottom() {
    let { scrollHeight, scrollTop, clientHeight } = this.element;
    return scrollHeight - scrollTop - clientHeight < NEAR_BOTTOM_PX;
  }
  toBottom() {
    this.followed = !0, this.element.scrollTop = this.element.scrollHeight, this.jump.hidden = !0;
  }
  /** Shown for the first time, or again: fill the screen with what there is. */
  async opened() {
    this.oldest === void 0 && await this.loadOlder(), this.toBottom();
  }
  sending(clientMid, text2) {
    if (this.byMid.has(clientMid)) return;
    let item = this.newItem({ clientMid, text: text2, sender: this.user, mine: !0, status: "sending", atMs: Date.now(), sentAt: performance.now() });
    this.byMid.set(clientMid, item), this.items.push(item), this.place(item), this.toBottom();
  }
  outcome(outcome) {
    let item = this.byMid.get(outcome.clientMid);
    if (item)
      if ("seq" in outcome) {
        this.stands(item, outcome.seq, outcome.sentAtMs);
        let again = outcome.attempts > 1 ? `, attempt ${outcome.attempts}` : "";
        item.sentAt !== void 0 && this.io.timing(`accepted after ${Math.round(performance.now() - item.sentAt)} ms${again}`);
      } else
        item.status = outcome.outcome, item.detail = outcome.error.message, this.draw(item);
  }
  events(events) {
    for (let event of events) this.add(event);
    this.followed ? this.toBottom() : this.jump.hidden = !1;
  }
  persisted({ persistedSeq, seqs, deadLettered }) {
    this.persistedSeq = Math.max(this.persistedSeq, persistedSeq);
    for (let seq of deadLettered) this.mark(seq, "dead_lettered");
    for (let item of this.items) item.seq !== void 0 && (item.seq <= this.persistedSeq || seqs.includes(item.seq)) && this.mark(item.seq, "persisted");
  }
  /** Too much was missed to be pushed: begin again with the newest page. */
  async restart() {
    for (let item of this.bySeq.values()) item.row.remove();
    this.items.splice(0, this.items.length, ...this.byMid.values()), this.bySeq.clear(), this.oldest = void 0, this.more = !0, await this.opened();
  }
  /** A range that does not exist for this user. */
  gap(from, to) {
    let text2 = from === to ? `Message ${from} is not available here` : `Messages ${from}–${to} are not available here`;
    this.bySeq.has(to) || this.insert(this.newItem({ seq: to, text: text2, note: !0 }));
  }
  async loadOlder() {
    if (this.loading || !this.more) return;
    this.loading = !0, this.top.textContent = "Loading…";
    let page = await this.io.older(this.oldest);
    if (this.top.textContent = "", this.loading = !1, !page) return;
    let { scrollHeight, scrollTop } = this.element;
    for (let gap of page.gaps) this.gap(gap.from, gap.to);
    for (let event of page.events) this.add(event);
    this.oldest = Math.min(...page.events.map(({ seq }) => seq), this.oldest ?? page.head + 1), this.more = page.more, this.persisted({ conversation: this.conversation, persistedSeq: page.persistedSeq, seqs: [], deadLettered: [] }), this.more || (this.top.textContent = "This is where it begins."), this.element.scrollTop = scrollTop + this.element.scrollHeight - scrollHeight;
  }
  scrolled() {
    this.atBottom ? this.followed = !0 : this.element.scrollTop < this.lastTop && (this.followed = !1), this.lastTop = this.element.scrollTop, this.followed && (this.jump.hidden = !0), this.element.scrollTop < 120 && this.oldest !== void 0 && this.loadOlder();
  }
  add(event) {
    if (this.bySeq.has(event.seq)) return;
    let own = event.sender === this.user ? this.byMid.get(event.clientMid) : void 0;
    if (own) return this.stands(own, event.seq, event.sentAtMs);
    let { seq, sender, clientMid, sentAtMs: atMs } = event;
    if (event.body.case !== "message") return this.insert(this.newItem({ seq, text: describe(event), atMs, note: !0 }));
    let { content } = event.body, text2 = "text" in content ? content.text : `${content.data.length} bytes ${content.type ?? ""}`, mine = sender === this.user, status = mine ? seq <= this.persistedSeq ? "persisted" : "accepted" : void 0;
    this.insert(this.newItem({ seq, sender: sender || "service", clientMid, text: text2, mine, atMs, status }));
  }
  /** A message on its way has got its place in the log. */
  stands(item, seq, atMs) {
    item.seq === void 0 && (this.byMid.delete(item.clientMid), this.items.splice(this.items.indexOf(item), 1), Object.assign(item, { seq, atMs, status: seq <= this.persistedSeq ? "persisted" : "accepted", detail: `seq ${seq}` }), this.draw(item), this.insert(item));
  }
  mark(seq, status) {
    let item = this.bySeq.get(seq);
    !item?.mine || item.status === status || item.status === "dead_lettered" || (item.status = status, status === "persisted" && item.sentAt !== void 0 && this.io.timing(`stored after ${Math.round(performance.now() - item.sentAt)} ms`), this.draw(item));
  }
  newItem(init) {
    let row = el("li", { class: "row" }), item = { seq: void 0, clientMid: "", mine: !1, sender: "", text: "", atMs: 0, note: !1, status: void 0, detail: "", sentAt: void 0, ...init, row };
    return this.draw(item), item;
  }
  insert(item) {
    let seq = item.seq ?? 1 / 0, known = this.bySeq.get(seq);
    if (known && known !== item) {
      item.row.remove();
      return;
    }
    this.bySeq.set(seq, item);
    let at = this.items.length;
    for (; at > 0 && (this.items[at - 1].seq ?? 1 / 0) > seq; ) at -= 1;
    this.items.splice(at, 0, item), this.place(item);
  }
  place(item) {
    let at = this.items.indexOf(item), next = this.items[at + 1];
    (item.row.nextSibling !== (next?.row ?? null) || !item.row.isConnected) && this.rows.insertBefore(item.row, next?.row ?? null);
    for (let near of [item, next]) near && this.group(near);
  }
  /** The name stands above the first of several messages of one sender. */
  group(item) {
    let before = this.items[this.items.indexOf(item) - 1];
    item.row.classList.toggle("follows", !!before && !before.note && !item.note && before.sender === item.sender);
  }
  draw(item) {
    let { row } = item;
    if (row.className = `row ${item.note ? "note" : item.mine ? "mine" : "theirs"}${row.classList.contains("follows") ? " follows" : ""}`, row.dataset.seq = item.seq === void 0 ? "" : String(item.seq), row.dataset.status = item.status ?? "", item.note) {
      row.replaceChildren(el("span", { class: "notice", textContent: item.text }));
      return;
    }
    let time = el("time", { textContent: new Date(item.atMs).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) });
    time.dateTime = new Date(item.atMs).toISOString();
    let meta = el("span", { class: "meta" }, time);
    if (item.status) {
      let [sign, word] = SIGNS[item.status];
      meta.append(el("span", { class: "sign", title: item.detail ? `${word} – ${item.detail}` : word }, icon(sign), el("span", { class: "hidden", textContent: word })));
    }
    let bubble = el("div", { class: "bubble" }, el("span", { class: "text", textContent: item.text }), meta), name = this.showNames && !item.mine ? [el("span", { class: "name", textContent: item.sender })] : [], failed = item.status === "rejected" || item.status === "unknown";
    row.replaceChildren(...name, bubble, ...failed ? [el("span", { class: "why", textContent: item.detail })] : []);
  }
};
function describe(event) {
  let { body } = event;
  switch (body.case) {
    case "created":
      return "The conversation was created";
    case "membersAdded":
      return `${body.users.join(", ")} joined`;
    case "membersRemoved":
      return `${body.users.join(", ")} left`;
    case "settings":
      return "The settings were changed";
    default:
      return body.case;
  }
}

// demo/src/pane.ts
var Pane = class {
  constructor(user, rooms, subprotocol) {
    this.user = user;
    this.rooms = rooms;
    this.subprotocol = subprotocol;
    this.stateBox = el("span", { class: "state", data: { state: "idle" }, aria: { role: "status" } }, el("i", { class: "dot" }), this.stateText), this.action = el("button", { class: "quiet", type: "button", onclick: () => this.act() }), this.input = el("textarea", { rows: 1, placeholder: `Message as ${user}`, aria: { label: `Message as ${user}` } }), this.input.addEventListener("keydown", (event) => {
      event.key !== "Enter" || event.shiftKey || event.isComposing || (event.preventDefault(), this.send());
    });
    let composer = el("form", { class: "composer" }, this.input, el("button", { class: "send", type: "submit", title: "Send", aria: { label: "Send" } }, icon("send")));
    composer.addEventListener("submit", (event) => {
      event.preventDefault(), this.send();
    });
    let head = el("header", { class: "pane-head" }, avatar(user), el("div", { class: "who" }, el("h2", { textContent: user }), this.stateBox), this.action);
    this.element = el("section", { class: "pane", data: { user }, aria: { label: `${user}'s side` } }, head, this.tabBar, this.stage, composer, el("footer", {}, this.timing));
    for (let room of rooms) this.addTab(room);
    this.client = this.newClient([]);
  }
  user;
  rooms;
  subprotocol;
  element;
  tabs = /* @__PURE__ */ new Map();
  tabBar = el("div", { class: "tabs", aria: { role: "tablist", label: "Conversations" } });
  stage = el("div", { class: "stage" });
  input;
  stateText = el("span", { class: "state-text" });
  stateBox;
  action;
  timing = el("span", { class: "timing" });
  client;
  current;
  countdown;
  start() {
    this.connect();
    let first = this.rooms[0];
    first && this.show(first.conversation);
  }
  /** Another encoding: a new client takes over where the old one is. */
  async use(subprotocol) {
    subprotocol !== this.subprotocol && (this.subprotocol = subprotocol, await this.client.close(), this.client = this.newClient(this.client.cursors()), await this.connect());
  }
  newClient(cursors) {
    let client = new LapwingClient({
      url: location.origin,
      token: () => token(this.user),
      store: new WebStore(sessionStorage),
      namespace: `demo/${this.user}`,
      subprotocol: this.subprotocol,
      cursors
    });
    return client.on("state", (state) => this.drawState(state)), client.on("conversations", ({ conversations }) => conversations.forEach((state) => this.know(state))), client.on("joined", (state) => this.know(state)), client.on("events", ({ conversation, events }) => this.arrived(conversation, () => this.tabs.get(conversation)?.chat.events(events), events.filter((event) => event.sender !== this.user).length)), client.on("persisted", (persisted) => this.tabs.get(persisted.conversation)?.chat.persisted(persisted)), client.on("outcome", (outcome) => this.tabs.forEach(({ chat }) => chat.outcome(outcome))), client.on("gap", ({ conversation, from, to, reason }) => {
      let chat = this.tabs.get(conversation)?.chat;
      reason === "tooMany" || reason === "missing" ? chat?.restart() : chat?.gap(from, to);
    }), client.on("error", (error) => console.info(`[lapwing ${this.user}] ${error.message}`)), client;
  }
  async connect() {
    let client = this.client;
    try {
      await client.connect();
    } catch {
      return;
    }
    for (let { clientMid, target, content } of client.pending())
      "conversation" in target && "text" in content && this.tabs.get(target.conversation)?.chat.sending(clientMid, content.text);
    this.current && this.open(this.current);
  }
  know(state) {
    let { conversation, kind, peer } = state;
    if (kind === "system" || kind === "unspecified") return;
    let tab = this.tabs.get(conversation) ?? this.addTab({ conversation, title: kind === "p2p" ? peer : conversation.replace(/^grp\./, ""), group: kind === "group" });
    tab !== this.current && (tab.unread = Math.max(state.n - state.readN, 0), this.drawBadge(tab));
  }
  addTab({ conversation, title, group }) {
    let badge = el("span", { class: "badge", hidden: !0 }), button = el("button", { class: "tab", type: "button", data: { conversation }, aria: { role: "tab", selected: "false" }, onclick: () => this.show(conversation) });
    button.append(group ? el("span", { class: "hash", textContent: "#" }) : avatar(title), title, badge);
    let tab = { chat: new Chat(conversation, this.user, group, {
      older: (before) => this.older(conversation, before),
      timing: (text2) => {
        this.timing.textContent = text2;
      }
    }), button, badge, unread: 0 };
    return this.tabs.set(conversation, tab), this.tabBar.append(button), tab;
  }
  async older(conversation, before) {
    try {
      return await this.client.history(conversation, { limit: PAGE, ...before === void 0 ? {} : { before } });
    } catch (error) {
      console.info(`[lapwing ${this.user}] ${String(error)}`);
      return;
    }
  }
  show(conversation) {
    let tab = this.tabs.get(conversation);
    if (!(!tab || tab === this.current)) {
      for (let { button } of this.tabs.values()) button.setAttribute("aria-selected", String(button === tab.button));
      this.current = tab, this.stage.replaceChildren(tab.chat.element), this.open(tab);
    }
  }
  async open(tab) {
    this.client.state.state === "online" ? await tab.chat.opened() : tab.chat.toBottom(), this.read(tab);
  }
  arrived(conversation, draw, others) {
    draw();
    let tab = this.tabs.get(conversation);
    if (tab) {
      if (tab === this.current && document.visibilityState === "visible") return this.read(tab);
      tab.unread += others, this.drawBadge(tab);
    }
  }
  read(tab) {
    tab.unread = 0, this.drawBadge(tab), tab.chat.newestSeq > 0 && this.client.read(tab.chat.conversation, tab.chat.newestSeq);
  }
  drawBadge(tab) {
    tab.badge.hidden = tab.unread === 0, tab.badge.textContent = tab.unread > 99 ? "99+" : String(tab.unread), tab.badge.setAttribute("aria-label", `${tab.unread} unread`);
  }
  send() {
    let text2 = this.input.value.trim(), chat = this.current?.chat;
    if (!text2 || !chat) return;
    this.input.value = "";
    let clientMid = randomId();
    chat.sending(clientMid, text2), this.client.publish({ conversation: chat.conversation }, { text: text2 }, { clientMid });
  }
  act() {
    let { state } = this.client.state;
    state === "online" ? this.client.dropConnection() : state === "waiting" ? this.client.reconnectNow() : state === "closed" && this.connect();
  }
  drawState(state) {
    switch (clearInterval(this.countdown), this.stateBox.dataset.state = state.state, this.stateBox.title = "", this.action.hidden = !1, state.state) {
      case "online":
        return this.stateText.textContent = `Online · ${state.welcome.node} · ${this.subprotocol.endsWith("json") ? "JSON" : "binary"}`, this.action.title = "Cut the connection, as a lost network would", this.action.replaceChildren("Cut");
      case "waiting": {
        let end = performance.now() + state.retryInMs, draw = () => {
          this.stateText.textContent = `Offline · again in ${Math.max(0, Math.ceil((end - performance.now()) / 1e3))} s`;
        };
        return draw(), this.countdown = setInterval(draw, 500), this.stateBox.title = state.error.message, this.action.title = "Try again now", this.action.replaceChildren("Now");
      }
      case "closed":
        return this.stateText.textContent = state.error ? `Closed · ${state.error.codeName}` : "Closed", this.stateBox.title = state.error?.message ?? "", this.action.title = "Connect again, here", this.action.replaceChildren("Connect");
      default:
        this.stateText.textContent = "Connecting…", this.action.hidden = !0;
    }
  }
};

// demo/src/main.ts
var parameters = new URLSearchParams(location.search), GROUP = parameters.get("group") ?? "lounge";
function users() {
  let user = parameters.get("user");
  if (user) {
    let peer = parameters.get("peer") ?? (user === "alice" ? "bob" : "alice");
    return { shown: [user], all: [user, peer] };
  }
  let both = [parameters.get("left") ?? "alice", parameters.get("right") ?? "bob"];
  return { shown: both, all: both };
}
async function retry(attempt, status) {
  for (let failures = 0; ; failures += 1)
    try {
      return await attempt();
    } catch (error) {
      status.textContent = `The server is not ready yet – ${String(error)}`, await new Promise((resolve) => setTimeout(resolve, Math.min(1e3 * 2 ** failures, 3e4)));
    }
}
function protocolSwitch(panes, chosen) {
  let fieldset = el("fieldset", { class: "segments" }, el("legend", { class: "hidden", textContent: "Encoding" })), choices = [
    ["lapwing.v1.proto", "Binary"],
    ["lapwing.v1.json", "JSON"]
  ];
  for (let [value, label] of choices) {
    let radio = el("input", { type: "radio", name: "protocol", value, checked: value === chosen });
    radio.addEventListener("change", () => panes.forEach((pane) => {
      pane.use(value);
    })), fieldset.append(el("label", {}, radio, el("span", { textContent: label })));
  }
  return fieldset;
}
function themeSwitch() {
  let root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  return root.dataset.theme = localStorage.getItem("theme") ?? system, el(
    "button",
    {
      class: "round",
      type: "button",
      title: "Light or dark",
      aria: { label: "Light or dark" },
      onclick: () => {
        root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark", localStorage.setItem("theme", root.dataset.theme);
      }
    },
    icon("theme")
  );
}
async function start() {
  let { shown, all } = users(), [a = "alice", b = "bob"] = all, bar = document.querySelector("#controls"), main = document.querySelector("main"), status = el("p", { class: "starting", textContent: "Starting…", aria: { role: "status" } });
  bar.append(themeSwitch()), main.append(status);
  let p2p = await retry(() => ensureP2p(a, b), status), group = await retry(() => ensureGroup(GROUP, all), status), subprotocol = parameters.get("protocol") === "json" ? "lapwing.v1.json" : "lapwing.v1.proto", panes = shown.map((user) => {
    let peer = user === a ? b : a;
    return new Pane(user, [{ conversation: p2p, title: peer, group: !1 }, { conversation: group, title: GROUP, group: !0 }], subprotocol);
  });
  for (let user of shown.length > 1 ? [...shown].reverse() : []) {
    let peer = user === a ? b : a, link = el("a", { href: `/?${new URLSearchParams({ user, peer, group: GROUP }).toString()}`, target: "_blank", rel: "noopener", title: `Open ${user} in a tab` });
    link.append(icon("open"), user), bar.prepend(link);
  }
  bar.prepend(protocolSwitch(panes, subprotocol)), main.replaceChildren(...panes.map(({ element }) => element)), main.dataset.panes = String(panes.length), panes.forEach((pane) => pane.start());
}
start();
