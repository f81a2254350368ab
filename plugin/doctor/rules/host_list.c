#include "doctor/rules/host_list.h"

#include <stdlib.h>
#include <string.h>

/* Whether "01-16,20" holds a number of so many digits, which are padded as its first end is. */
static bool holds(const char *ranges, const char *end, const char *digits, size_t n)
{
    unsigned long number = strtoul(digits, NULL, 10);
    while (ranges < end) {
        char *behind;
        unsigned long first = strtoul(ranges, &behind, 10), last = first;
        size_t width = (size_t)(behind - ranges);
        bool padded = *ranges == '0' && width > 1;
        if (width == 0)
            return false;
        if (*behind == '-')
            last = strtoul(behind + 1, &behind, 10);
        if (number >= first && number <= last && (padded ? n == width : n == 1 || *digits != '0'))
            return true;
        ranges = behind + (*behind == ',');
        if (behind < end && *behind != ',')
            return false;
    }
    return false;
}

/* Whether the item of the list that begins there is the name. */
static bool is_item(const char *item, const char *name)
{
    while (*item && *item != ',') {
        const char *close = *item == '[' ? strchr(item, ']') : NULL;
        size_t n = strspn(name, "0123456789");
        if (!close) {
            if (*item++ != *name++)
                return false;
            continue;
        }
        if (n == 0 || !holds(item + 1, close, name, n))
            return false;
        item = close + 1;
        name += n;
    }
    return *name == '\0';
}

bool muster_host_list_has(const char *list, const char *name)
{
    bool inside = false;
    if (is_item(list, name))
        return true;
    for (; *list; list++) {
        inside = *list == '[' || (inside && *list != ']');
        if (*list == ',' && !inside && is_item(list + 1, name))
            return true;
    }
    return false;
}
