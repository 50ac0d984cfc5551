// A page of a list that is ordered by name, as a client reads it.
#pragma once

#include <string>
#include <vector>

namespace mainspring {

template <class T>
struct NamePage {
  std::vector<T> items;
  std::string next;  // pass as `after`; "" = there are no more. A page may be short and have it
};

}  // namespace mainspring
