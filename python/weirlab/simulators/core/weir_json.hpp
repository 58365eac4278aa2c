// A reader of JSON documents as Weir writes them (RFC 8259, UTF-8, numbers as doubles).
#ifndef WEIR_JSON_HPP
#define WEIR_JSON_HPP

#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace weir {

// A value. Null as a number is NaN: the files write what was not measured as null.
struct Json {
  enum Kind { Null, Bool, Number, Text, Array, Object };
  Kind kind = Null;
  double value = 0.0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> fields;

  bool has(const std::string& name) const { return fields.count(name) > 0; }

  const Json& operator[](const std::string& name) const {
    const auto found = fields.find(name);
    if (found == fields.end()) throw std::runtime_error("model file: missing field " + name);
    return found->second;
  }

  double number() const {
    if (kind == Null) return std::numeric_limits<double>::quiet_NaN();
    if (kind != Number) throw std::runtime_error("model file: expected a number");
    return value;
  }

  double number(const std::string& name, double otherwise) const {
    return has(name) ? (*this)[name].number() : otherwise;
  }

  std::vector<double> numbers() const {
    if (kind != Array) throw std::runtime_error("model file: expected an array");
    std::vector<double> found;
    for (const Json& item : items) found.push_back(item.number());
    return found;
  }
};

class JsonReader {
 public:
  // Throws std::runtime_error with the offset of what is no JSON.
  static Json read(const std::string& text) {
    JsonReader reader(text);
    Json value = reader.value(0);
    reader.blank();
    if (reader.at_ != text.size()) reader.fail("text after the document");
    return value;
  }

 private:
  explicit JsonReader(const std::string& text) : text_(text) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("model file: " + what + " at byte " + std::to_string(at_));
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void blank() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\n' || peek() == '\r' || peek() == '\t')) ++at_;
  }

  bool take(char wanted) {
    blank();
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }

  void need(char wanted) {
    if (!take(wanted)) fail(std::string("expected ") + wanted);
  }

  bool word(const char* wanted) {
    const std::string found(wanted);
    if (text_.compare(at_, found.size(), found) != 0) return false;
    at_ += found.size();
    return true;
  }

  Json value(int depth) {
    if (depth > 64) fail("nested too deeply");
    Json found;
    blank();
    switch (peek()) {
      case '{':
        ++at_;
        found.kind = Json::Object;
        if (take('}')) return found;
        do {
          const std::string name = string();
          need(':');
          found.fields[name] = value(depth + 1);
        } while (take(','));
        need('}');
        return found;
      case '[':
        ++at_;
        found.kind = Json::Array;
        if (take(']')) return found;
        do found.items.push_back(value(depth + 1));
        while (take(','));
        need(']');
        return found;
      case '"':
        found.kind = Json::Text;
        found.text = string();
        return found;
      default:
        break;
    }
    if (word("null")) return found;
    found.kind = Json::Bool;
    if (word("true")) {
      found.value = 1.0;
      return found;
    }
    if (word("false")) return found;
    found.kind = Json::Number;
    char* end = nullptr;
    const char* begin = text_.c_str() + at_;
    found.value = std::strtod(begin, &end);
    if (end == begin) fail("expected a value");
    at_ += static_cast<std::size_t>(end - begin);
    return found;
  }

  std::string string() {
    need('"');
    std::string found;
    while (peek() != '"') {
      if (at_ >= text_.size()) fail("unfinished text");
      if (peek() != '\\') {
        found += text_[at_++];
        continue;
      }
      ++at_;
      const char escape = peek();
      ++at_;
      if (escape == 'u') {
        unsigned long code = std::strtoul(text_.substr(at_, 4).c_str(), nullptr, 16);
        at_ += 4;
        if (code >= 0xD800 && code < 0xDC00 && word("\\u")) {
          code = 0x10000 + ((code - 0xD800) << 10) + (std::strtoul(text_.substr(at_, 4).c_str(), nullptr, 16) - 0xDC00);
          at_ += 4;
        }
        append(found, code);
      } else {
        const std::string plain = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        const std::size_t which = plain.find(escape);
        if (which == std::string::npos) fail("unknown escape");
        found += meant[which];
      }
    }
    ++at_;
    return found;
  }

  static void append(std::string& text, unsigned long code) {
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else if (code < 0x800) {
      text += static_cast<char>(0xC0 | (code >> 6));
      text += static_cast<char>(0x80 | (code & 0x3F));
    } else {
      if (code < 0x10000) {
        text += static_cast<char>(0xE0 | (code >> 12));
      } else {
        text += static_cast<char>(0xF0 | (code >> 18));
        text += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
      }
      text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
      text += static_cast<char>(0x80 | (code & 0x3F));
    }
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace weir

#endif
