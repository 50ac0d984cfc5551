// JsonReader: RapidJSON's grammar, errors with their field, limits, writing.
#include "api/json.h"

#include <doctest/doctest.h>
#include <rapidcheck.h>
#include <rapidjson/reader.h>

using namespace mainspring;

namespace {

bool rapidjson_accepts(std::string_view text) {
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::EncodedInputStream<rapidjson::UTF8<>, rapidjson::MemoryStream> in(stream);
  rapidjson::BaseReaderHandler<> ignore;
  rapidjson::Reader reader;
  return !reader
              .Parse<rapidjson::kParseValidateEncodingFlag | rapidjson::kParseNumbersAsStringsFlag>(
                  in, ignore)
              .IsError();
}

bool accepts(std::string_view text) {
  return check_json("x", text).has_value();
}

// RapidJSON has no rule against repeated keys.
bool has_repeated_key(std::string_view text) {
  const auto checked = check_json("x", text);
  return !checked && checked.error().message.find("given twice") != std::string::npos;
}

std::string nested(int depth) {
  return std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']');
}

template <class F>
void check_property(const char* what, F&& property) {
  CHECK(rc::check(what, std::forward<F>(property)));
}

struct Thing {
  std::string name;
  int size = 0;
  std::vector<int> list;
  bool on = false;
  double part = 0;
  std::string any;
};
constexpr JsonField<Thing> kThing[] = {
    {"name", [](JsonReader& in, Thing& t) { return in.string(t.name); }},
    {"size", [](JsonReader& in, Thing& t) { return in.integer(t.size, 0, 9); }},
    {"list",
     [](JsonReader& in, Thing& t) {
       return in.array(3, [&](std::size_t) { return in.integer(t.list.emplace_back(), 0, 100); });
     }},
    {"on", [](JsonReader& in, Thing& t) { return in.boolean(t.on); }},
    {"part", [](JsonReader& in, Thing& t) { return in.number(t.part, 0, 1); }},
    {"any", [](JsonReader& in, Thing& t) { return in.raw(t.any); }},
};

Result<Thing> read_thing(std::string_view text,
                         JsonReader::Unknown unknown = JsonReader::Unknown::refuse) {
  JsonReader in(text, unknown);
  Thing thing;
  if (!in.object(kThing, thing) || !in.end()) return in.error();
  return thing;
}

Error refusal(std::string_view text) {
  auto read = read_thing(text);
  REQUIRE_FALSE_MESSAGE(read.has_value(), text);
  return read.error();
}

}  // namespace

TEST_CASE("an object is read by its table, in any order, payloads byte for byte") {
  auto thing = read_thing(R"( { "size":7,"any": {"a" : [1, 2.50e+3,"\u00e9"]} , "list":[1,2 ],
    "name":"a\"\\\/\b\f\n\r\té😀", "on":true,"part":2.5e-1 } )");
  REQUIRE(thing);
  CHECK(thing->size == 7);
  CHECK(thing->any == R"({"a" : [1, 2.50e+3,"\u00e9"]})");
  CHECK(thing->list == std::vector{1, 2});
  CHECK(thing->name == "a\"\\/\b\f\n\r\té😀");
  CHECK(thing->on);
  CHECK(thing->part == 0.25);
  CHECK(read_thing("{}"));
  CHECK(read_thing(R"({"n\u0061me":"x"})")->name == "x");
  CHECK(read_thing(R"({"name":"\ud83d\ude00"})")->name == "😀");
}

TEST_CASE("an invalid value is refused with field, value and rule") {
  struct Case {
    std::string_view text, field, message;
  };
  for (const Case& c : std::initializer_list<Case>{
           {R"({"size":12})", "size", "size 12: must be 0 to 9"},
           {R"({"size":1.5})", "size", "size 1.5: must be a whole number"},
           {R"({"size":99999999999999999999})", "size",
            "size 99999999999999999999: must be 0 to 9"},
           {R"({"size":"7"})", "size", "size: must be a whole number, not a string"},
           {R"({"size":null})", "size", "size: must be a whole number, not null"},
           {R"({"name":7})", "name", "name: must be a string, not a number"},
           {R"({"name":"a\u0000b"})", "name", "name: must not contain U+0000"},
           {R"({"on":"true"})", "on", "on: must be true or false, not a string"},
           {R"({"part":1.01})", "part", "part 1.01: must be 0 to 1"},
           {R"({"part":1e999})", "part", "part 1e999: must be 0 to 1"},
           {R"({"any":null})", "any", "any: must be a value, not null"},
           {R"({"list":{}})", "list", "list: must be an array, not an object"},
           {R"({"list":[1,"x"]})", "list[1]", "list[1]: must be a whole number, not a string"},
           {R"({"list":[1,2,3,4]})", "list", "list has more than 3 entries"},
           {R"({"size":1,"size":1})", "size", "size: given twice"},
           {R"({"sise":1})", "sise", "\"sise\": no such field here; did you mean \"size\"?"},
           {R"({"unheard":1})", "unheard",
            "\"unheard\": no such field here; known are name, size, list, on, part, any"},
           {"[]", "", "the body: must be an object, not an array"},
           {"", "", "the body is not JSON: unexpected end at byte 0"},
           {"{} x", "", "the body is not JSON: extra text after the end at byte 3"},
           {"{}{}", "", "the body is not JSON: extra text after the end at byte 2"},
           {R"({"name":"a)", "name", "the body is not JSON: an unterminated string at byte 10"},
           {R"({"name":"a" "size":1})", "", "the body is not JSON: no , or } at byte 12"},
           {R"({"name":tru})", "name", "the body is not JSON: no value at byte 8"},
           {R"({"on":tru})", "on", "the body is not JSON: no value at byte 6"},
           {"{\"name\":\"a\xff\"}", "name", "name: must be UTF-8"},
           {R"({"name":"\ud800x"})", "name", "name: must not have half of a surrogate pair"},
       }) {
    CAPTURE(c.text);
    const Error error = refusal(c.text);
    CHECK(error.field == c.field);
    CHECK(error.message == c.message);
  }
  CHECK(refusal(R"({"list":[1,2,3,4]})").code == ErrorCode::too_large);
  CHECK(read_thing(R"({"part":1e-999})")->part == 0);
}

TEST_CASE("a reader of responses ignores unknown members") {
  auto thing = read_thing(R"({"new":{"deep":[1,{"a":null}]},"size":3,"more":"x"})",
                          JsonReader::Unknown::skip);
  REQUIRE(thing);
  CHECK(thing->size == 3);
  CHECK_FALSE(read_thing(R"({"new":[1,}],"size":3})", JsonReader::Unknown::skip));
}

TEST_CASE("nesting is bounded at 64, inside payloads too, without recursion") {
  CHECK(accepts(nested(kMaxJsonDepth)));
  CHECK_FALSE(accepts(nested(kMaxJsonDepth + 1)));
  CHECK_FALSE(accepts(std::string(1'000'000, '[')));
  CHECK(read_thing(R"({"any":)" + nested(kMaxJsonDepth - 1) + "}"));
  const Error error = refusal(R"({"any":)" + nested(kMaxJsonDepth) + "}");
  CHECK(error.field == "any");
  CHECK(error.message == "any: nested deeper than 64 levels");
}

TEST_CASE("a NUL byte is not the end of the text") {
  using namespace std::string_view_literals;
  for (std::string_view text : {"\0"sv, "1\0"sv, "1\0 2"sv, "\0001"sv, "{}\0"sv, "[1\0]"sv,
                                "[\0]"sv, "{\"a\0\":1}"sv, "\"a\0b\""sv, "tru\0"sv, "1.\0"sv}) {
    CAPTURE(text.size());
    CHECK_FALSE(accepts(text));
  }
  CHECK(refusal("{}\0"sv).message == "the body is not JSON: extra text after the end at byte 2");
  CHECK(refusal("{\"name\":\"a\0b\"}"sv).message ==
        "the body is not JSON: an unescaped control character in a string at byte 10");
}

TEST_CASE("the text need not end with a NUL byte, and bytes after the text are ignored") {
  const std::string_view text = R"({"size":12})";
  CHECK_FALSE(accepts(text.substr(0, 10)));
  CHECK(accepts(text.substr(8, 1)));
  CHECK(accepts(text.substr(8, 2)));
  CHECK_FALSE(accepts(std::string_view()));
}

TEST_CASE("the first problem in the text is the one that is reported") {
  CHECK(refusal(R"({"size":12,"name":tru})").message == "size 12: must be 0 to 9");
  CHECK(refusal(R"({"sise:12,"name":"x"})").message == "the body is not JSON: no : at byte 11");
  CHECK(refusal(R"({"list":[1,2,x]})").field == "list[2]");
  CHECK(refusal(R"({"any":[1,{"a":[2,}]})").field == "any");
  CHECK(refusal(R"({"size":1,"name")").message ==
        "the body is not JSON: unexpected end at byte 16");
}

TEST_CASE("a value that other readers would change is refused with its path") {
  const std::string digits = "1" + std::string(308, '0');
  const std::pair<std::string, std::string> numbers[] = {
      {"1e400", "any 1e400: must be within 1.8e308, the range of a double"},
      {"[0,-1.8e308]", "any[1] -1.8e308: must be within 1.8e308, the range of a double"},
      {R"({"a":{"b":[{},[1,2],{"c":2e308}]}})",
       "any.a.b[2].c 2e308: must be within 1.8e308, the range of a double"},
      {digits + "0",
       "any " + digits.substr(0, 64) + ": must be within 1.8e308, the range of a double"},
      {R"({"n":Infinity})", "any.n Infinity: must be a number; JSON has no NaN and no Infinity"},
      {"[-Infinity]", "any[0] -Infinity: must be a number; JSON has no NaN and no Infinity"},
      {R"({"x":1,"n":NaN })", "any.n NaN: must be a number; JSON has no NaN and no Infinity"},
      {R"({"a":1,"b":{"c":2,"c":3}})", "any.b.c: given twice"},
      {R"({"a":1,"b":[{}],"\u0061":{}})", "any.a: given twice"},
      {R"({"1":1,"2":2,"3":3,"4":4,"5":5,"6":6,"7":7,"8":8,"9":9,"3":0})", "any.3: given twice"},
      {R"({"a":{"\udc00":1}})", "any.a: must not have half of a surrogate pair"},
      {R"([{"t":"\ud800"}])", "any[0].t: must not have half of a surrogate pair"}};
  for (const auto& [text, message] : numbers) {
    CAPTURE(text);
    CHECK(refusal("{\"any\":" + text + "}").message == message);
    CHECK_FALSE(json_or_text("any", text));
    CHECK(json_or_text("any", text).error().message == message);
  }
  CHECK(refusal(R"({"any":[1,{"a":2e999}]})").field == "any[1].a");
  // Keys of each length, of which many have the same ends.
  std::string keys;
  for (std::size_t i = 0; i < 300; ++i) {
    const std::string key = std::string(i % 40, 'k') + (i < 40 ? "" : std::to_string(i)) + "end";
    keys += fmt::format("\"{}\":{{\"\":1}},", i < 40 ? key.substr(3) : key);
  }
  CHECK(accepts("{" + keys + "\"last\":1}"));
  CHECK(refusal("{\"any\":{" + keys + "\"kkkend\":1}}").message == "any.kkkend: given twice");
  for (const std::string& within :
       {std::string("1.7976931348623157e308"), digits, digits + ".5",
        "1" + std::string(400, '0') + "e-200", std::string("1e-999"), std::string("0e999"),
        std::string("[1,2,3e308,\"1e400\"]").replace(5, 5, "1e308"),
        std::string(R"({"a":{"a":1},"b":{"a":2}})")}) {
    CAPTURE(within);
    CHECK(accepts(within));
    CHECK(json_or_text("any", within) == within);
  }
}

TEST_CASE("a reader of answers takes values as they are, and says so") {
  JsonReader in(R"(["\\\"1e5",1e400,{"a":1,"a":-2e999}, 1e5])", JsonReader::Unknown::skip);
  std::vector<std::string> values;
  CHECK(in.array(9, [&](std::size_t) { return in.raw(values.emplace_back()); }));
  CHECK(in.end());
  CHECK(in.beyond());
  CHECK(values ==
        std::vector<std::string>{R"("\\\"1e5")", "1e400", R"({"a":1,"a":-2e999})", "1e5"});
  JsonReader plain("[1e5]", JsonReader::Unknown::skip);
  CHECK(plain.skip());
  CHECK_FALSE(plain.beyond());
}

TEST_CASE("what a program writes is a text unless it is JSON") {
  for (const char* text : {"done", "[INFO] 3 files", "[2026-11-28 10:00] done", "{'a': 1}",
                           "Infinity pools", "NaNny", "1e400 things", "{\"a\":", "\"half"}) {
    CAPTURE(text);
    std::string quoted;
    append_json_string(quoted, text);
    CHECK(json_or_text("result", text) == quoted);
  }
  CHECK(json_or_text("result", " 17").value() == " 17");
  CHECK(json_or_text("result", "{\"a\":\"\xff\"}").error().message == "result.a: must be UTF-8");
  CHECK(json_or_text("result", "caf\xe9").value() == "\"caf\xef\xbf\xbd\"");
}

TEST_CASE("a reader reports its position") {
  JsonReader in(R"( [ {"a": [1 , 2]} ,"b\n", 3] )", JsonReader::Unknown::refuse);
  CHECK(in.consumed() == 0);
  CHECK(in.remaining() == 29);
  std::vector<std::size_t> at;
  std::vector<std::string> values;
  CHECK(in.array(9, [&](std::size_t) {
    at.push_back(in.consumed());
    return in.raw(values.emplace_back());
  }));
  CHECK(at == std::vector<std::size_t>{2, 17, 24});
  CHECK(values == std::vector<std::string>{"{\"a\": [1 , 2]}", "\"b\\n\"", "3"});
  CHECK(in.remaining() == 1);
  CHECK(in.peek() == JsonType::end);
  CHECK(in.end());
}

TEST_CASE("texts are cut at a character, never inside one") {
  CHECK(cut_text("abc", 5) == "abc");
  CHECK(cut_text("abc", 2) == "ab");
  CHECK(cut_text("aé", 2) == "a");
  CHECK(cut_text("😀😀", 7) == "😀");
  CHECK(cut_text("😀", 0).empty());
}

TEST_CASE("the grammar is RapidJSON's, on hand-picked hard cases") {
  for (std::string_view text : {"0",
                                "-0",
                                "-",
                                "01",
                                "1.",
                                ".5",
                                "1e5",
                                "1e",
                                "1E+0",
                                "-1.5e-7",
                                "+1",
                                "nul",
                                "null",
                                "nullx",
                                "\"\"",
                                "\"\\x\"",
                                "\"\\u12g4\"",
                                "\"\\ud800\"",
                                "\"\\ud800\\udc00\"",
                                "\"\\ud800\\u0041\"",
                                "[1,]",
                                "[,1]",
                                "[]",
                                "[ ]",
                                "{ }",
                                "{\"a\"}",
                                "{\"a\":}",
                                "{\"a\":1,}",
                                "{,}",
                                "{\"a\" :1 }",
                                "{1:2}",
                                "[1 2]",
                                "]",
                                "[}",
                                "{]",
                                "\x01",
                                "\"\x01\"",
                                "\"\x7f\"",
                                "\"\xc0\x80\"",
                                "\"\xed\xa0\x80\"",
                                "\"\xf4\x90\x80\x80\"",
                                "\"\xe2\x82\xac\"",
                                "\"\xe2\x82\"",
                                "Infinity",
                                "NaN",
                                "'a'",
                                "/**/1",
                                "1 ",
                                " \t\r\n1"}) {
    CAPTURE(text);
    CHECK(accepts(text) == rapidjson_accepts(text));
  }
  CHECK_FALSE(accepts("\"\\udc00\""));  // RapidJSON accepts it, although it is not a character
}

TEST_CASE("the grammar is RapidJSON's, on documents made and broken at random") {
  const auto gen_byte = rc::gen::elementOf(std::string(
      "{}[]:,\"\"\"\\\\nutrf0123456789eE+-. \n\x01\x7f\xc3\xa9\xe2\x82\xac\xed\xa0\xf0\x9f"));
  const std::vector<std::string> parts = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"a\"",
                                          "\"\"",
                                          "1",
                                          "-2.5e3",
                                          "true",
                                          "false",
                                          "null",
                                          " ",
                                          "\"\\u00e9\"",
                                          "\"é€😀\"",
                                          "\"\\ud83d\\ude00\"",
                                          "{\"k\":",
                                          "[1,2]",
                                          "{}",
                                          "\"a long plain string of text\""};
  check_property("tokens in any order", [&] {
    std::string text;
    for (const auto& part :
         *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts)))
      text += part;
    RC_ASSERT(accepts(text) == (rapidjson_accepts(text) && !has_repeated_key(text)));
  });
  check_property("one byte of a good document changed", [&] {
    std::string text =
        R"({"queue":"photos","n":[1,-2.50,3e7,{"x":null}],"s":"\u00e9\n é€😀 plain","t":true})";
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    text[at] = *gen_byte;
    RC_ASSERT(accepts(text) == (rapidjson_accepts(text) && !has_repeated_key(text)));
  });
}

TEST_CASE("any text is written as valid JSON and decodes to itself") {
  check_property("a string of any bytes", [](const std::string& text) {
    std::string json;
    append_json_string(json, text);
    RC_ASSERT(accepts(json));
  });
  check_property("a number reads back as it was", [](double value) {
    std::string json;
    append_json_number(json, value);
    RC_ASSERT(accepts(json));
    RC_ASSERT(std::stod(json) == value);
  });
  std::string json;
  append_json_string(json, "a\"\\\n\t\r\x01\xff é");
  CHECK(json == "\"a\\\"\\\\\\n\\t\\r\\u0001\xef\xbf\xbd é\"");
  check_property("a time is written as format_wall_time writes it", [] {
    const auto t = WallTime::from_us(*rc::gen::inRange<std::int64_t>(0, 253402300799'000'000));
    std::string text;
    append_json_time(text, t);
    RC_ASSERT(text == "\"" + format_wall_time(t) + "\"");
  });
}
