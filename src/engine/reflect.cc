// The part of reflection that depends on the JSON library.
#include "mainspring/reflect.h"

#include <fmt/format.h>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>

#include "api/json.h"

namespace mainspring::reflect {
namespace {

const rapidjson::Value& value_of(const void* value) {
  return *static_cast<const rapidjson::Value*>(value);
}

}  // namespace

void append_string(std::string& out, std::string_view text) {
  append_json_string(out, text);
}

void append_number(std::string& out, std::int64_t value) {
  append_json_number(out, value);
}

void append_number(std::string& out, std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}

void append_number(std::string& out, double value) {
  if (std::isfinite(value)) {
    append_json_number(out, value);
  } else {
    out += std::isnan(value) ? "NaN"
           : value > 0       ? "Infinity"
                             : "-Infinity";  // refused, with its path
  }
}

bool View::is_null() const {
  return value_of(value_).IsNull();
}

bool View::is_object() const {
  return value_of(value_).IsObject();
}

bool View::is_array() const {
  return value_of(value_).IsArray();
}

bool View::get(bool& out) const {
  const auto& value = value_of(value_);
  if (!value.IsBool()) return false;
  out = value.GetBool();
  return true;
}

bool View::get(std::int64_t& out) const {
  const auto& value = value_of(value_);
  if (!value.IsInt64()) return false;
  out = value.GetInt64();
  return true;
}

bool View::get(std::uint64_t& out) const {
  const auto& value = value_of(value_);
  if (!value.IsUint64()) return false;
  out = value.GetUint64();
  return true;
}

bool View::get(double& out) const {
  const auto& value = value_of(value_);
  if (!value.IsNumber()) return false;
  out = value.GetDouble();
  return true;
}

bool View::get(std::string& out) const {
  const auto& value = value_of(value_);
  if (!value.IsString()) return false;
  out.assign(value.GetString(), value.GetStringLength());
  return true;
}

std::string View::text() const {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value_of(value_).Accept(writer);
  return {buffer.GetString(), buffer.GetSize()};
}

std::optional<View> View::member(std::string_view name) const {
  const auto& object = value_of(value_);
  const rapidjson::Value key(
      rapidjson::StringRef(name.data(), static_cast<rapidjson::SizeType>(name.size())));
  const auto it = object.FindMember(key);
  if (it == object.MemberEnd()) return std::nullopt;
  return View(&it->value);
}

std::size_t View::size() const {
  const auto& value = value_of(value_);
  return value.IsArray() ? value.Size() : value.IsObject() ? value.MemberCount() : 0;
}

View View::at(std::size_t index) const {
  return View(&value_of(value_)[static_cast<rapidjson::SizeType>(index)]);
}

std::pair<std::string, View> View::member_at(std::size_t index) const {
  const auto& member = value_of(value_).MemberBegin()[static_cast<std::ptrdiff_t>(index)];
  return {std::string(member.name.GetString(), member.name.GetStringLength()), View(&member.value)};
}

struct Document::Impl {
  rapidjson::Document document;
};

Document::Document(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Document::Document(Document&&) noexcept = default;
Document::~Document() = default;

Result<Document> Document::parse(std::string_view json) {
  MS_TRY(check_json("", json));  // also limits the depth, which the parser below does not
  auto impl = std::make_unique<Impl>();
  impl->document.Parse<rapidjson::kParseFullPrecisionFlag>(json.data(), json.size());
  if (impl->document.HasParseError()) return invalid("", "must be JSON");
  return Document(std::move(impl));
}

View Document::root() const {
  return View(static_cast<const rapidjson::Value*>(&impl_->document));
}

Error wrong(const std::string& path, std::string_view rule) {
  return invalid(path, path.empty() ? fmt::format("must be {}", rule)
                                    : fmt::format("{}: must be {}", path, rule));
}

}  // namespace mainspring::reflect
